"""What decisions find: rows as they were read under their locks."""

from datetime import datetime
from uuid import UUID

import msgspec

from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A locked run. Counters as in `tidegate.schemas.effect.UpdateRun`."""

    id: int
    dag_id: str
    run_id: str
    run_type: RunType
    state: RunState
    version_id: int
    run_after: datetime
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    start_date: datetime | None


class QueuedRun(msgspec.Struct, frozen=True):
    """A run that waits for its turn, with the graph of the version it is pinned to."""

    run: RunView
    graph: Graph


class PendingEvent(msgspec.Struct, frozen=True):
    """A locked row of `dataset_dag_run_queue`."""

    dataset_id: int
    dataset_event_id: int
    uri: str
    occurred_at: datetime


class DagView(msgspec.Struct, frozen=True, kw_only=True):
    """A locked DAG and what waits for it.

    `running` and `queued` count its runs in these states. `waiting` are its first queued runs in the order of promotion, at
    least as many as may start now; `pending` all its pending events. Both may be empty when the DAG could not use them anyway.
    `next_run_id` is reserved for a run that this decision may create.
    """

    graph: Graph
    is_paused: bool
    is_stale: bool
    running: int
    queued: int
    next_run_id: int
    waiting: tuple[QueuedRun, ...] = ()
    pending: tuple[PendingEvent, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether no run may start, however much room there is."""
        return self.is_paused or self.is_stale


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task instance of a locked run."""

    dag_run_id: int
    task_index: int
    state: TaskState
    try_number: int
    upstream_success: int
    upstream_failed: int


class SubmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, read after its run was locked."""

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    state: SubmissionState
