"""What decisions may do to the world. The engine groups the effects of a batch by type and performs each group at once."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.event import DagRunStateChanged, TaskStateChanged
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.receiver import Receiver
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.view import PendingEvent


class InsertRun(msgspec.Struct, frozen=True, kw_only=True):
    """A new run; `id` was reserved when its DAG was locked. Counters as in `UpdateRun`."""

    id: int
    dag_id: str
    run_id: str
    run_type: RunType
    state: RunState
    version_id: int
    run_after: datetime
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    max_active_tasks: int
    conf: dict[str, Any]
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    start_date: datetime | None
    end_date: datetime | None
    times_out_at: datetime | None


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
    tasks without an end state, `active_tasks` its attempts under way, `failed_leaves` those tasks that decide about the run and
    failed. A run that is queued again loses its
    dates; otherwise `start_date`, `end_date` and `times_out_at` of None leave what is there.
    """

    id: int
    state: RunState
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    active_tasks: int
    start_date: datetime | None = None
    end_date: datetime | None = None
    times_out_at: datetime | None = None


class ChangeVersion(msgspec.Struct, frozen=True):
    """A run goes on with another version of its DAG. `indices`: old and new index of each task, negative for one that is gone."""

    dag_run_id: int
    version_id: int
    max_active_tasks: int
    indices: tuple[tuple[int, int], ...]


class PlaceTask(msgspec.Struct, frozen=True):
    """A task instance waits from now on as its task does in another version of its DAG."""

    dag_run_id: int
    task_index: int
    pool: str
    pool_slots: int
    rank: int
    per_dag: int | None
    per_run: int | None


class InsertTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance of a run that starts. `rank`: lower ones leave the queue of the pool first.

    `awaited` and its counts as in `tidegate.handlers.advance.Instance`; `per_dag` and `per_run` are its task's limits.
    """

    dag_run_id: int
    task_index: int
    task_id: str
    state: TaskState
    max_tries: int
    awaited: int
    success: int
    failed: int
    skipped: int
    upstream_failed: int
    waits_for_past: bool
    pool: str
    pool_slots: int
    rank: int
    order_at: datetime
    per_dag: int | None
    per_run: int | None
    scheduled_at: datetime | None
    end_date: datetime | None


class UpdateTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance's new state and counts.

    One whose turn comes is `scheduled_at`; dates of None leave what is there, but one that is reset to `none` loses them.
    """

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    max_tries: int
    awaited: int
    success: int
    failed: int
    skipped: int
    upstream_failed: int
    waits_for_past: bool
    next_try_at: datetime | None
    elements: int
    scheduled_at: datetime | None
    end_date: datetime | None


class MoveTask(msgspec.Struct, frozen=True):
    """A task instance moves on while what it waited for stays as it is."""

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    start_date: datetime | None = None


class CountAdmitted(msgspec.Struct, frozen=True):
    """Tasks were given slots of a pool while others waited for long."""

    pool: str
    tasks: int


class LookAgain(msgspec.Struct, frozen=True):
    """There is room left in a pool, and more of its queue than was looked at. Performed by ringing."""

    pool: str


class Reconsider(msgspec.Struct, frozen=True):
    """The run is to be looked at as a whole; with a reason, to be stopped."""

    dag_run_id: int
    stop_reason: str | None = None


class ReconsiderAfter(msgspec.Struct, frozen=True):
    """Runs of the DAG that come after this one may have waited for it."""

    dag_id: str
    dag_run_id: int


class InsertSubmission(msgspec.Struct, frozen=True):
    """The intent to run one attempt on a backend."""

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    backend: str


class KillSubmissions(msgspec.Struct, frozen=True):
    """The attempts of a run that are under way are to be killed; of one task only, or of all."""

    dag_run_id: int
    task_index: int | None
    reason: str


class AcceptSubmission(msgspec.Struct, frozen=True):
    """A backend took an attempt; `handle` finds it again. It may take until `times_out_at`."""

    submission_id: UUID
    handle: dict[str, Any]
    at: datetime
    times_out_at: datetime | None


class EndSubmission(msgspec.Struct, frozen=True):
    """An attempt ended on its backend."""

    submission_id: UUID
    state: SubmissionState
    reason: str
    exit_code: int | None
    started_at: datetime | None
    ended_at: datetime


class StoreResult(msgspec.Struct, frozen=True):
    """What a task returned: any JSON value."""

    dag_run_id: int
    task_index: int
    value: Any


class DropResult(msgspec.Struct, frozen=True):
    """What a task returned does not count any more: it is to run again."""

    dag_run_id: int
    task_index: int


class InsertDeadline(msgspec.Struct, frozen=True):
    """A new run, or a task of it, is to have ended by then."""

    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class MeetDeadlines(msgspec.Struct, frozen=True):
    """A task of a run ended, or with no `task_id` all of the run: what was due later is met."""

    dag_run_id: int
    task_id: str | None
    at: datetime


class MissDeadline(msgspec.Struct, frozen=True):
    """A deadline has passed; `missed_seq` is the number of the event that says so."""

    id: int
    missed_seq: int
    missed_at: datetime


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is to be told what happened, once this is committed.

    What happened is known by the `seq` of its event `about` a `run` or a `task`, and nobody is told of that twice: `receiver_id`
    stands for the receiver.
    """

    dag_run_id: int
    about: Literal["run", "task"]
    seq: int
    kind: str
    receiver_id: UUID
    receiver: Receiver
    context: CallbackContext


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


class DeleteDag(msgspec.Struct, frozen=True):
    """The DAG goes, with its versions, its runs, what waits for it and what became of its events."""

    dag_id: str


class SetPaused(msgspec.Struct, frozen=True):
    """Pause or unpause a DAG."""

    dag_id: str
    is_paused: bool


class SetClock(msgspec.Struct, frozen=True):
    """How far a DAG's timetable has come, and when the clock is to look at the DAG again; None: something else will.

    `dataset_run_at`, `deadline_at` and `turn` as in `tidegate.schemas.view.DagView`.
    """

    dag_id: str
    last_logical_date: datetime | None
    last_interval_start: datetime | None
    last_interval_end: datetime | None
    due_at: datetime | None
    dataset_run_at: datetime | None = None
    deadline_at: datetime | None = None
    turn: str | None = None


class NoteSchedule(msgspec.Struct, frozen=True):
    """Something about a DAG's schedule that made no run is recorded, or once more."""

    dag_id: str
    kind: Literal["tick_unmet", "deadline_run", "deadline_skip", "deadline_alert", "condition_error"]
    reason: str
    at: datetime


class CountFailures(msgspec.Struct, frozen=True):
    """How many runs of the DAG have failed in a row."""

    dag_id: str
    failed_runs: int


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
    | ChangeVersion
    | PlaceTask
    | InsertTask
    | UpdateTask
    | MoveTask
    | Reconsider
    | ReconsiderAfter
    | CountAdmitted
    | LookAgain
    | InsertSubmission
    | KillSubmissions
    | AcceptSubmission
    | EndSubmission
    | DropResult
    | StoreResult
    | InsertDeadline
    | MeetDeadlines
    | MissDeadline
    | Notify
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
    | DeleteDag
    | SetPaused
    | SetClock
    | NoteSchedule
    | CountFailures
    | RejectMessage
)
