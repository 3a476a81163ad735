"""What decisions may do to the world. The engine groups the effects of a batch by type and performs each group at once."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.event import DagRunStateChanged, TaskStateChanged
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.view import PendingEvent


class InsertRun(msgspec.Struct, frozen=True):
    """A new run; `id` was reserved when its DAG was locked. Counters as in `UpdateRun`."""

    id: int
    dag_id: str
    run_id: str
    run_type: RunType
    state: RunState
    version_id: int
    run_after: datetime
    conf: dict[str, Any]
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    start_date: datetime | None
    end_date: datetime | None


class ConsumeEvents(msgspec.Struct, frozen=True):
    """These pending events made this run: recorded with it and taken from the queue, exactly these."""

    dag_id: str
    dag_run_id: int
    events: tuple[PendingEvent, ...]


class DiscardEvents(msgspec.Struct, frozen=True):
    """These pending events will make no run of this DAG; why is recorded."""

    dag_id: str
    events: tuple[PendingEvent, ...]
    reason: str


class UpdateRun(msgspec.Struct, frozen=True):
    """A run's new state and counters, written under its lock.

    `state_seq` and `task_seq` are the numbers last given to its run-state and task-state events. `unfinished` counts its
    tasks without an end state, `failed_leaves` those leaves that ended without success.
    """

    id: int
    state: RunState
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    start_date: datetime | None
    end_date: datetime | None


class InsertTask(msgspec.Struct, frozen=True):
    """A task instance of a run that starts."""

    dag_run_id: int
    task_index: int
    task_id: str
    state: TaskState
    upstream_success: int
    upstream_failed: int
    end_date: datetime | None


class UpdateTask(msgspec.Struct, frozen=True):
    """A task instance's new state and counts. `start_date` and `end_date` of None leave what is there."""

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    upstream_success: int
    upstream_failed: int
    next_try_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None


class InsertSubmission(msgspec.Struct, frozen=True):
    """The intent to run one attempt on a backend."""

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    backend: str


class AcceptSubmission(msgspec.Struct, frozen=True):
    """A backend took an attempt; `handle` finds it again."""

    submission_id: UUID
    handle: dict[str, Any]
    at: datetime


class EndSubmission(msgspec.Struct, frozen=True):
    """An attempt ended on its backend."""

    submission_id: UUID
    state: SubmissionState
    reason: str
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime


class IgnoreFinish(msgspec.Struct, frozen=True):
    """A finish that changes nothing is recorded with the reason."""

    submission_id: UUID
    source: str
    event_id: str
    outcome: str
    reason: str


class RunMoved(msgspec.Struct, frozen=True):
    """Journal and publish a run's move."""

    dag_run_id: int
    event: DagRunStateChanged


class TaskMoved(msgspec.Struct, frozen=True):
    """Publish a task's move."""

    dag_run_id: int
    event: TaskStateChanged


class OutletUpdated(msgspec.Struct, frozen=True):
    """A task that succeeded updates a dataset: an event like any producer's, through Kafka. The id is the same at every try."""

    uri: str
    event_id: str
    extra: dict[str, Any]
    at: datetime


class RecordFile(msgspec.Struct, frozen=True):
    """What is known of a DAG file after a parse. `digest` None: it is not there; `absent_scans` counts how often in a row."""

    path: str
    digest: str | None
    absent_scans: int
    parse_duration_s: float


class RecordImportError(msgspec.Struct, frozen=True):
    """The file cannot be used as it is; its last good version stays in force."""

    path: str
    line: int | None
    reason: str


class ClearImportError(msgspec.Struct, frozen=True):
    """The file is fine again."""

    path: str


class StoreVersion(msgspec.Struct, frozen=True):
    """A DAG is new or changed: store the version, and make it the current one with its references."""

    version_id: int
    number: int
    spec: DagSpec
    path: str
    digest: str
    source: str


class AdoptDag(msgspec.Struct, frozen=True):
    """An unchanged DAG is in this file again, or now: no longer stale."""

    dag_id: str
    path: str


class MarkStale(msgspec.Struct, frozen=True):
    """The DAG is in no file any more; it keeps its versions, runs and pending events."""

    dag_id: str


class SetPaused(msgspec.Struct, frozen=True):
    """Pause or unpause a DAG."""

    dag_id: str
    is_paused: bool


class RejectMessage(msgspec.Struct, frozen=True):
    """The message cannot be handled: a dead letter, or the answer to who asked. `index` is its place in the batch."""

    index: int
    reason: str
    message: str


Effect = (
    InsertRun
    | ConsumeEvents
    | DiscardEvents
    | UpdateRun
    | InsertTask
    | UpdateTask
    | InsertSubmission
    | AcceptSubmission
    | EndSubmission
    | IgnoreFinish
    | RunMoved
    | TaskMoved
    | OutletUpdated
    | RecordFile
    | RecordImportError
    | ClearImportError
    | StoreVersion
    | AdoptDag
    | MarkStale
    | SetPaused
    | RejectMessage
)
