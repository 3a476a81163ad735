"""Messages: everything that changes state, from Kafka or from inside, in one form."""

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.wire.event import EventId

Body = TypeVar("Body")


class Message(msgspec.Struct, Generic[Body], frozen=True, kw_only=True):
    """One thing that happened.

    `id` makes redelivery harmless; internal messages, which are idempotent by what they find, have none. `at` is when it
    happened, by its producer's word or the broker's.
    """

    body: Body
    at: datetime
    id: EventId | None = None


class RunRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user wants a run. `run_id` None: one is made from the time. It starts at `run_after` at the earliest, else at once."""

    dag_id: str
    run_id: str | None
    conf: dict[str, Any]
    logical_date: datetime | None = None
    run_after: datetime | None = None


class ClearRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user wants tasks of runs to run again: of one run, or of all runs from `start` to `end`, by logical date or `run_after`.

    `task_ids` empty: all tasks. `newest`: on the DAG's newest version instead of the run's own.
    """

    dag_id: str
    run_id: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    task_ids: tuple[str, ...] = ()
    upstream: bool = False
    downstream: bool = True
    only_failed: bool = False
    newest: bool = False


class RunEndRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user sets a run to `failed` or `success`. `only_if_active`: only if it has not ended."""

    dag_id: str
    run_id: str
    state: RunState
    reason: str
    only_if_active: bool = False


class TaskMarked(msgspec.Struct, frozen=True, kw_only=True):
    """A user has it that a task of a run ended so: `failed` or `success`."""

    dag_id: str
    run_id: str
    task_id: str
    state: TaskState


class PauseRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user pauses or unpauses a DAG."""

    dag_id: str
    is_paused: bool


class DagDeleteRequested(msgspec.Struct, frozen=True, kw_only=True):
    """A user deletes a DAG that is in no file any more."""

    dag_id: str


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
    """A run of the DAG may be due by the clock."""

    dag_id: str


class RunReconsidered(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks of a run are evaluated."""

    dag_run_id: int


class RetryDue(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance may be due for another try."""

    dag_run_id: int
    task_index: int


class AttemptTimedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have taken longer than its task allows."""

    submission_id: UUID


class AttemptStuck(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have waited too long for being submitted."""

    submission_id: UUID


class RunTimedOut(msgspec.Struct, frozen=True, kw_only=True):
    """A run may have taken longer than its DAG allows."""

    dag_run_id: int


class DeadlineDue(msgspec.Struct, frozen=True, kw_only=True):
    """A deadline may have passed."""

    deadline_id: int


class SubmissionAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """A backend took an attempt: its task runs."""

    submission_id: UUID
    handle: dict[str, Any]


class AttemptSilent(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt may have had no heartbeat for `silent_s`."""

    submission_id: UUID
    silent_s: float
