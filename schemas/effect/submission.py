"""Effects on submissions: the attempts of tasks."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.state import KillCause, SubmissionState


class InsertSubmission(msgspec.Struct, frozen=True):
    """The intent to run one attempt on a backend; on the `cluster` that its task names, if it names one."""

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    backend: str
    cluster: str | None = None


class KillSubmissions(msgspec.Struct, frozen=True):
    """Request the kill of the open attempts of a task, or of a whole run."""

    dag_run_id: int
    task_index: int | None
    reason: str
    cause: KillCause = KillCause.STOPPED


class AcceptSubmission(msgspec.Struct, frozen=True):
    """A backend accepted an attempt. `handle` identifies it there. `times_out_at` ends the execution timeout of its task."""

    submission_id: UUID
    handle: dict[str, Any]
    at: datetime
    times_out_at: datetime | None


class EndSubmission(msgspec.Struct, frozen=True):
    """An attempt ended on its backend. `log_path` and `log_tail` are known of attempts that did not succeed.

    `backend` is for the metrics, and is stored already.
    """

    submission_id: UUID
    state: SubmissionState
    reason: str
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime
    log_path: str | None = None
    log_tail: str | None = None
    backend: str = ""


class IgnoreFinish(msgspec.Struct, frozen=True):
    """Record a task-finished event that changes nothing, with the reason."""

    submission_id: UUID
    source: str
    event_id: str
    outcome: str
    reason: str


class KeepEnd(msgspec.Struct, frozen=True):
    """Keep the end of an attempt that has no row, for the case that it gets one: the database was restored, or lost commits.

    `dag_run_id` is that of its run. Without the run, or with another `token`, the end is not kept. `index` is the position of its
    message in the batch.
    """

    submission_id: UUID
    token: str
    dag_run_id: int
    body: dict[str, Any]
    index: int = 0


class DeferEnd(msgspec.Struct, frozen=True):
    """The clock applies the end of the attempt, whose DAG or run another session holds, once its row is free.

    `body` is the TaskFinished event as JSON. It occurred at `occurred_at`, by its producer.
    """

    submission_id: UUID
    dag_run_id: int
    source: str
    event_id: str
    occurred_at: datetime
    body: bytes
    at: datetime


class TakeDeferredEnd(msgspec.Struct, frozen=True):
    """The deferred end is applied now."""

    id: int


SubmissionEffect = (
    InsertSubmission | KillSubmissions | AcceptSubmission | EndSubmission | IgnoreFinish | KeepEnd | DeferEnd | TakeDeferredEnd
)
