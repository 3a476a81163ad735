"""Effects on backfills, their dates and their runs."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.backfill import BackfillView, TaskCounts
from tidegate.schemas.state import DateState


class InsertBackfill(msgspec.Struct, frozen=True):
    """A new backfill. Its file and source are those of its version."""

    backfill: BackfillView


class UpdateBackfill(msgspec.Struct, frozen=True):
    """How far a locked backfill has come. Its limits and counters are not written. The clock visits it at `due_at`."""

    backfill: BackfillView
    due_at: datetime | None


class SetBackfillLimits(msgspec.Struct, frozen=True):
    """Write the limits of a backfill; `pool` and `priority` are set for the waiting tasks of its runs, too."""

    backfill: BackfillView


class InsertDate(msgspec.Struct, frozen=True):
    """A planned date: with a run, or with the reason why it has none.

    `again_since`: the run existed before, and runs again from this time on. `is_whole`: the date is to be retried, with all tasks
    of its run.
    """

    backfill_id: int
    ordinal: int
    logical_date: datetime
    state: DateState
    dag_run_id: int | None
    reason: str = ""
    again_since: datetime | None = None
    is_whole: bool = False


class CloseDate(msgspec.Struct, frozen=True):
    """The run of a date has ended, or was ended or stays as it is for a `reason`; with the tasks of the run."""

    backfill_id: int
    ordinal: int
    state: DateState
    tasks: TaskCounts = TaskCounts()
    reason: str = ""


class OpenDate(msgspec.Struct, frozen=True):
    """The run of a date that was to be retried runs again from this time on."""

    backfill_id: int
    ordinal: int
    at: datetime


class RetryDates(msgspec.Struct, frozen=True):
    """The cancelled dates of a backfill are to run again; with `failed` also the failed ones."""

    backfill_id: int
    failed: bool = True


class RerunDate(msgspec.Struct, frozen=True):
    """The run of a date, which has ended, is to run again with all its tasks: an input was rewritten since."""

    backfill_id: int
    ordinal: int


class PinVersion(msgspec.Struct, frozen=True):
    """The new runs of a backfill, and runs that run again, get this version from now on."""

    backfill_id: int
    version_id: int


class TakeRun(msgspec.Struct, frozen=True):
    """A run that existed belongs to a backfill from now on. `conf` None keeps its conf."""

    dag_run_id: int
    backfill_id: int
    conf: dict[str, Any] | None
    pool: str | None
    priority: int
    updates_outlets: bool


class NotifyBackfill(msgspec.Struct, frozen=True):
    """A run of a backfill has ended, or, if it was `reopened`, left its end state: the clock visits the backfill `at` this time.

    A reopened run of a backfill that has ended leaves the backfill: the limits of its DAG apply from then on.
    """

    backfill_id: int
    dag_run_id: int
    reopened: bool
    at: datetime


class WakeBackfills(msgspec.Struct, frozen=True):
    """The DAG can start runs again: the clock visits its backfills `at` this time."""

    dag_id: str
    at: datetime


class DeleteBackfillDates(msgspec.Struct, frozen=True):
    """Delete the dates of a deleted backfill. Its runs stay."""

    backfill_id: int


BackfillEffect = (
    InsertBackfill
    | UpdateBackfill
    | SetBackfillLimits
    | InsertDate
    | CloseDate
    | OpenDate
    | RetryDates
    | RerunDate
    | PinVersion
    | TakeRun
    | NotifyBackfill
    | WakeBackfills
    | DeleteBackfillDates
)
