"""What decisions find: rows as they were read under their locks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.conditions.condition import Leaf
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.timetable.tick import Tick

LATEST = datetime.max.replace(tzinfo=UTC)


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A locked run.

    `state_seq` and `task_seq` are the numbers last given to its run-state and task-state events. `unfinished` counts its
    tasks without an end state, `active_tasks` its attempts under way, at most `max_active_tasks`, `failed_leaves` the failed ones
    of the tasks that decide about the run.
    """

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
    active_tasks: int = 0
    max_active_tasks: int = 16
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    times_out_at: datetime | None = None

    def is_late(self, now: datetime) -> bool:
        """Whether it takes longer than its DAG allows."""
        return self.times_out_at is not None and self.times_out_at <= now

    @property
    def has_tasks(self) -> bool:
        """Whether it has ever started: its task instances are there, and at least one of them has moved."""
        return self.task_seq > 0

    @property
    def order_at(self) -> datetime:
        """Runs of one DAG follow each other by this, then by `id`."""
        return self.logical_date or self.run_after


class PreviousRun(msgspec.Struct, frozen=True):
    """The run of a DAG before another one. `states` are its tasks' by id; None where it has not started."""

    states: Mapping[str, TaskState] | None


class QueuedRun(msgspec.Struct, frozen=True):
    """A run that waits for its turn, with the graph of the version it is pinned to."""

    run: RunView
    graph: Graph


class PendingEvent(msgspec.Struct, frozen=True):
    """A locked row of `dataset_dag_run_queue`. `extra` is JSON; it and the arrival are read only for DAGs that inspect events."""

    dataset_id: int
    dataset_event_id: int
    uri: str
    occurred_at: datetime
    arrived_at: datetime = LATEST
    extra: str = "{}"

    @property
    def time(self) -> datetime:
        """The event's own time. A producer whose clock is ahead is not believed."""
        return min(self.occurred_at, self.arrived_at)


class Input(NamedTuple):
    """An event, and the parts of a condition that it is an input of."""

    event: PendingEvent
    leaves: tuple[Leaf, ...]


class LockedDag(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a locked DAG.

    `next_run_id` is reserved for a run that this transaction may create. `failed_runs` counts the failed runs since the last
    success. `last_tick` is the last tick of the timetable that was decided, `timed_since` when the DAG got a timetable, `due_at`
    when the clock visits the DAG next. `dataset_run_at` is when the condition last made a run, `deadline_at` up to when input
    deadlines were dealt with; both only if the schedule needs them. `last_source` is the source that was served last when several
    asked for a run (`tidegate.handlers.scheduling.round_robin.Source`). `backfilled_by_txn` is the last transaction that queued
    events from the ledger.
    """

    graph: Graph
    is_paused: bool
    is_stale: bool
    next_run_id: int
    failed_runs: int = 0
    last_tick: Tick | None = None
    due_at: datetime | None = None
    timed_since: datetime | None = None
    dataset_run_at: datetime | None = None
    deadline_at: datetime | None = None
    last_source: str | None = None
    backfilled_by_txn: int = 0

    @property
    def is_held(self) -> bool:
        """Whether no run may start, however many slots are free."""
        return self.is_paused or self.is_stale


class DagActivity(msgspec.Struct, frozen=True):
    """Runs of a DAG, and whether events are pending from `low_watermark` on.

    `queued` counts the queued runs whose `run_after` has come; for the next one of the others it comes `next_queued_at`. No event
    below `settled` can be queued any more.
    """

    running: int
    queued: int
    next_queued_at: datetime | None
    has_pending: bool
    low_watermark: int = 0
    settled: int = 0


class DagView(LockedDag, frozen=True, kw_only=True):
    """A locked DAG with what its read plan asked for (`tidegate.schemas.read_plan`).

    `running`, `queued` and `next_queued_at` as in `DagActivity`. `queued_runs` are the first ones in the order of promotion,
    at least as many as may start. `pending` are the pending events. If they were not read although the DAG inspects events, the
    DAG is `unread`, and `arrived` are its new events. `inputs` are what the pending events are to the condition, once a decision
    has inspected them.

    `run_dates` are the logical dates after `last_tick` that have a run. `timed_run_ids` and `event_run_ids`
    are reserved, the latter for dataset runs beyond the first.
    """

    running: int
    queued: int
    run_dates: frozenset[datetime] = frozenset()
    timed_run_ids: tuple[int, ...] = ()
    event_run_ids: tuple[int, ...] = ()
    unread: bool = False
    arrived: tuple[PendingEvent, ...] = ()
    inputs: tuple[Input, ...] | None = None
    next_queued_at: datetime | None = None
    queued_runs: tuple[QueuedRun, ...] = ()
    pending: tuple[PendingEvent, ...] = ()


class Columns(msgspec.Struct):
    """A struct whose fields are columns of the row of the struct that holds it."""


class Instance(Columns):
    """A task instance of a locked run. `max_tries` is the number of the last try it may have.

    `awaited` is how many instances it waits for, and the counts after it how many of those ended in which state.
    `waits_for_past`: the run before its own is to allow it first. A mapped task whose turn has come has `elements` instances of
    its own, and waits for those.
    """

    index: int
    state: TaskState = TaskState.NONE
    try_number: int = 0
    max_tries: int = 1
    awaited: int = 0
    success: int = 0
    failed: int = 0
    skipped: int = 0
    upstream_failed: int = 0
    waits_for_past: bool = False
    next_try_at: datetime | None = None
    elements: int = 0


class WaitingTask(msgspec.Struct, frozen=True):
    """A task instance that waits for slots; `per_dag` and `per_run` are the limits of its task, `is_paused` is its DAG.

    `is_attempted`: an attempt of it has not ended, since a user decided about the task meanwhile.
    """

    dag_run_id: int
    task_index: int
    dag_id: str
    task_id: str
    state: TaskState
    try_number: int
    pool_slots: int = 1
    per_dag: int | None = None
    per_run: int | None = None
    is_paused: bool = False
    is_attempted: bool = False

    @property
    def key(self) -> tuple[int, int]:
        return self.dag_run_id, self.task_index


TaskKey = tuple[int, int]
"""(dag_run_id, task_index)"""

LimitOwner = tuple[int | str, str]
"""What a limit counts in: a run, a task in a run, or a task in a DAG; as (dag_run_id or dag_id, task_id or nothing)."""


class Candidate(NamedTuple):
    """A task instance that may get slots. `limited_in`: its DAG, if the DAG has a limit for the task."""

    dag_run_id: int
    task_index: int
    limited_in: str | None

    @property
    def key(self) -> TaskKey:
        return self.dag_run_id, self.task_index


class StarvingTask(NamedTuple):
    """A candidate that has waited long. `limits_left`: how many more tasks each limit that counts it would admit."""

    candidate: Candidate
    limits_left: Mapping[LimitOwner, int]


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: its free slots, all its slots, and how many more tasks may be active in the whole installation; None: any number.

    `admitted` counts tasks that got slots while others were starving. `waits_since` is the oldest wait for slots, where it was
    read. `parallelism` limits the active tasks of the installation, 0 for no limit. A pool that does not `exist` has no capacity.
    """

    name: str
    open: int | None
    slots: int | None = None
    parallel: int | None = None
    admitted: int = 0
    waits_since: datetime | None = None
    parallelism: int = 0
    exists: bool = True

    @property
    def free(self) -> int:
        """How many tasks may get a slot at most."""
        return max(min(MANY if self.open is None else self.open, MANY if self.parallel is None else self.parallel), 0)


MANY = 1_000_000


class DeadlineView(msgspec.Struct, frozen=True):
    """A locked open deadline; of a task if it has a `task_id`."""

    id: int
    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class SubmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, read after its run was locked.

    `kill_reason` is set once a kill is requested. `killed_before`: earlier attempts of its task killed for the same reason.
    """

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    state: SubmissionState
    kill_reason: str | None = None
    killed_before: int = 0
