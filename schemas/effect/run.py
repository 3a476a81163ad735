"""Effects on runs, and requests to reconsider them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.view import RunStatus, RunView
from tidegate.schemas.wire.event import DagRunStateChanged


class InsertRun(RunView, frozen=True, kw_only=True):
    """A new run after its first moves. Its `id` was reserved when its DAG was locked. `events` counts the events it consumes.

    `events_left` counts events that its limit leaves pending, up to a bound.
    """

    end_date: datetime | None
    conf: dict[str, Any]
    events: int
    events_left: int


class UpdateRun(RunStatus, frozen=True, kw_only=True):
    """A run's new status, written under its lock.

    A run that is queued again loses its dates; otherwise None keeps the stored date.
    """

    end_date: datetime | None


class ChangeVersion(msgspec.Struct, frozen=True):
    """Move a run to another version of its DAG. `indices`: old and new index of each instance; -1, -2, … if removed.

    `times_out_at`: when a running run exceeds the timeout of this version.
    """

    dag_run_id: int
    version_id: int
    max_active_tasks: int
    indices: tuple[tuple[int, int], ...]
    times_out_at: datetime | None = None


class AnnounceOutlets(msgspec.Struct, frozen=True):
    """The outlets of tasks of a run are published as new events: `announced` counts by task how often, with this time."""

    dag_run_id: int
    announced: Mapping[str, int]


class RunMoved(msgspec.Struct, frozen=True):
    """Journal and publish a change of a run's state."""

    dag_run_id: int
    event: DagRunStateChanged


class Reconsider(msgspec.Struct, frozen=True):
    """Request the evaluation of all tasks of the run; with a reason, the stop of the run."""

    dag_run_id: int
    stop_reason: str | None = None


class ReconsiderAfter(msgspec.Struct, frozen=True):
    """Request the evaluation of the next run of the DAG, which may have waited for this one."""

    dag_id: str
    dag_run_id: int


RunEffect = InsertRun | UpdateRun | ChangeVersion | AnnounceOutlets | RunMoved | Reconsider | ReconsiderAfter
