"""Messages: the input of every decision, from Kafka or internal."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

from tidegate.schemas.backfill import BackfillSpec
from tidegate.schemas.params import Params
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.wire.event import DatasetUpdated, EventId, TaskFinished

Body = TypeVar("Body")


class Message(msgspec.Struct, Generic[Body], frozen=True, kw_only=True):
    """An event or a request, with the data `body`.

    `id` identifies a redelivered message. Internal messages have none: their handlers compare the stored state, so a repeated one
    changes nothing. `at` is the time of the event according to its producer, or of the record according to the broker.
    `ignored`: fields of a dataset event that this version does not know.
    """

    body: Body
    at: datetime
    id: EventId | None = None
    ignored: tuple[str, ...] = ()


def request_of(messages: Sequence[Message[Body]]) -> Body:
    """The only message of its batch: requests of users come one at a time."""
    (message,) = messages
    return message.body


class RunRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user requests a run. `run_id` None: the handler derives it from the time. The run starts at `run_after` or later.

    `params` are the parameters that the conf fits. It is checked before: the check may take long, and the handler holds locks.
    """

    dag_id: str
    run_id: str | None
    conf: dict[str, Any]
    logical_date: datetime | None = None
    run_after: datetime | None = None
    params: Params = Params()


class ClearOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a clearing covers and does, in the words of the command, the API and the form: all three take these options."""

    upstream: Annotated[bool, Meta(description="Also clear all tasks before these.")] = False
    only_failed: Annotated[bool, Meta(description="Clear only tasks that failed, or whose upstream did.")] = False
    newest_version: Annotated[
        bool,
        Meta(description="Move the runs to the newest version of the DAG. Refused while one runs with an older version."),
    ] = False
    cascade: Annotated[
        bool,
        Meta(description="Run each run again that consumed what these tasks write, in order, by a backfill."),
    ] = False
    announce: Annotated[
        bool,
        Meta(description="Publish what these tasks write as new events, which start new runs of the consumers."),
    ] = False


def options_of(given: ClearOptions) -> dict[str, Any]:
    """The options by name."""
    return {name: getattr(given, name) for name in ClearOptions.__struct_fields__}


class ClearRequested(ClearOptions, frozen=True, kw_only=True):
    """A user clears tasks, which run again: of one run, of the runs `run_ids`, or of all runs from `start` to `end`, by logical
    date or `run_after`.

    `task_ids` empty: all tasks; a name such as `load[3]` is one instance of a mapped task. `backfill_id`, reserved for it, is the
    backfill of a cascade. `shown`: the ids of the runs that the user has confirmed; None if the user was not asked.
    """

    dag_id: str
    run_id: str | None = None
    run_ids: tuple[str, ...] | None = None
    start: datetime | None = None
    end: datetime | None = None
    task_ids: tuple[str, ...] = ()
    downstream: bool = True
    backfill_id: int | None = None
    shown: tuple[str, ...] | None = None
    user: str = "a user"


CANCELLED_BY = "cancelled by "
"""How the reason begins with which a user ends a run that has not ended; the name of the user follows."""

MARKED_BY = "marked by "
"""How the reason begins with which a user sets a run or a task to `failed` or `success`; the name of the user follows."""


class RunEndRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user sets a run to `failed` or `success`. `only_if_active`: only if it has not ended."""

    dag_id: str
    run_id: str
    state: RunState
    reason: str
    only_if_active: bool = False


class RunsCancelled(msgspec.Struct, frozen=True, kw_only=True):
    """A user cancels runs of a DAG, of which one transaction ends the first ones. A run that has ended stays as it is."""

    dag_id: str
    run_ids: tuple[str, ...]
    reason: str


class TaskMarked(msgspec.Struct, frozen=True, kw_only=True):
    """A user sets a task of a run to `failed` or `success`."""

    dag_id: str
    run_id: str
    task_id: str
    state: TaskState
    user: str = "a user"


class PauseRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user pauses or unpauses a DAG."""

    dag_id: str
    is_paused: bool


class ReleaseRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user releases a held DAG."""

    dag_id: str


class HistoryPart(StrEnum):
    """A part of the history of a DAG, in the order of deletion. A run goes with its tasks, attempts, results and journal."""

    RUNS = "runs"
    CONSUMED = "consumed"
    DISCARDED = "discarded"
    PENDING = "pending"
    DATES = "dates"
    VERSIONS = "versions"


class DagDeleteRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user deletes a stale DAG: no DAG file defines it.

    `portion`: only this part of its history, and of that the oldest rows, for at most this number of runs.
    """

    dag_id: str
    portion: tuple[HistoryPart, int] | None = None


class BackfillRequested(BackfillSpec, frozen=True, kw_only=True):
    """A user requests a backfill, with an id that was reserved for it. `params` as in `RunRequested`."""

    backfill_id: int
    params: Params = Params()


class BackfillAction(StrEnum):
    """What a user does with a backfill."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"


class BackfillActed(msgspec.Struct, frozen=True, kw_only=True):
    """A user pauses, resumes, cancels, retries or deletes a backfill. `kills`: a cancel ends running runs, too.

    `newest_version`: a retry gives the backfill the newest version of its DAG. `params` as in `RunRequested`, of that version.
    """

    backfill_id: int
    action: BackfillAction
    kills: bool = False
    newest_version: bool = False
    params: Params = Params()


class BackfillChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A user changes the limits of a backfill, or its end. `changes` are new values of fields of `Limits`, checked before.

    `expected`: the version of the limits that the user saw; None: any.
    """

    backfill_id: int
    changes: Mapping[str, Any] = {}
    end_date: datetime | None = None
    expected: str | None = None


class BackfillDue(msgspec.Struct, frozen=True, kw_only=True):
    """The `due_at` of a backfill may have come."""

    backfill_id: int


class BackfillLagging(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a backfill may lag behind its runs."""

    backfill_id: int


class TasksReady(msgspec.Struct, frozen=True, kw_only=True):
    """Task instances may be waiting for slots of a pool: admit up to `limit` of them.

    `parallelism` limits the active tasks of the installation, 0 for no limit. A task that has waited for `fair_after_s` gets
    slots before heavier ones.
    """

    pool: str
    limit: int
    parallelism: int = 0
    fair_after_s: float = 60.0


class ScheduleDue(msgspec.Struct, frozen=True, kw_only=True):
    """The `due_at` of a DAG may have come, or the DAG got events while another session had its row."""

    dag_id: str
    is_deferred: bool = False


class RunReconsidered(msgspec.Struct, frozen=True, kw_only=True):
    """A run may have a request to evaluate all its tasks."""

    dag_run_id: int


class RetryDue(msgspec.Struct, frozen=True, kw_only=True):
    """The `next_try_at` of a task instance may have come."""

    dag_run_id: int
    task_index: int


class AttemptTimedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have exceeded the `execution_timeout_s` of its task."""

    submission_id: UUID


class AttemptStuck(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may not have been submitted within `queued_s`."""

    submission_id: UUID
    queued_s: float


class RunTimedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run may have exceeded the `run_timeout_s` of its DAG."""

    dag_run_id: int


class DeadlineDue(msgspec.Struct, frozen=True, kw_only=True):
    """An open deadline may have passed."""

    deadline_id: int


class DatasetUpdateDeferred(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset was updated, and the decisions about its consumers failed, or need a row that another session holds: the clock
    makes them one by one.
    """

    update: DatasetUpdated


class EndLockedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt has ended, and another session has a row that the end changes: the clock applies it later."""

    end: TaskFinished


class EndDeferred(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt has ended while another session had the row of its DAG or run, which may be free now."""

    deferred_id: int


class SubmissionAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """A backend accepted an attempt; its task is running."""

    submission_id: UUID
    handle: dict[str, Any]


class AttemptUnreachable(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have been submitted by a daemon that no longer lives, on a host that has had no daemon for `absent_s`.

    It has not begun. `shared` are the backends whose attempts every host sees.
    """

    submission_id: UUID
    absent_s: float
    shared: tuple[str, ...] = ()


class AttemptSilent(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have had no heartbeat for `silent_s`."""

    submission_id: UUID
    silent_s: float
