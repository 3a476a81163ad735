"""The state that decisions read: rows, as they are under their locks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.columns import Columns
from tidegate.schemas.conditions.condition import Leaf
from tidegate.schemas.graph import Graph
from tidegate.schemas.read_plan import RUN_EVENTS
from tidegate.schemas.state import KillCause, RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.timetable.tick import Tick

FAR_FUTURE = datetime.max.replace(tzinfo=UTC)
"""Later than every time that a record may have."""

NO_LIMIT = 1_000_000
"""More slots than a pool has: stands for no limit where numbers are compared."""

TaskKey = tuple[int, int]
"""(dag_run_id, task_index)"""

LimitOwner = tuple[int | str, str]
"""The scope of a limit: a run, a task in a run or in a DAG, as (dag_run_id or dag_id, task_id or ""); or a backfill."""


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the transitions of a run change.

    `state_seq` and `task_seq` are the numbers of its last run-state and task-state events. `unfinished` counts tasks without an
    end state, `failed_leaves` the failed tasks that decide the state of the run, `active_tasks` queued and running tasks.
    """

    id: int
    state: RunState
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    active_tasks: int = 0
    start_date: datetime | None
    times_out_at: datetime | None = None


class RunView(RunStatus, frozen=True, kw_only=True):
    """A locked run. At most `max_active_tasks` of its tasks are active at once.

    A run with a `backfill_id` has the limits of this backfill instead of its DAG's. `pool` replaces the pools of its tasks, and
    `priority` is added to their weights. Without `updates_outlets` its successful tasks update no dataset. `announced` counts by
    task how often a user had its outlets announced again; None: never.
    """

    dag_id: str
    run_id: str
    run_type: RunType
    version_id: int
    run_after: datetime
    max_active_tasks: int = 16
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    backfill_id: int | None = None
    pool: str | None = None
    priority: int = 0
    updates_outlets: bool = True
    announced: Mapping[str, int] | None = None

    @property
    def is_live(self) -> bool:
        """Whether the limits of its DAG apply: it is no run of a backfill."""
        return self.backfill_id is None

    def is_late(self, now: datetime) -> bool:
        """Whether the run has exceeded the timeout of its DAG."""
        return self.times_out_at is not None and self.times_out_at <= now

    @property
    def has_tasks(self) -> bool:
        """Whether the run has task instances: it has started, and at least one task has changed its state."""
        return self.task_seq > 0

    @property
    def order_at(self) -> datetime:
        """The order of the runs of a DAG: by this time, then by `id`."""
        return self.logical_date or self.run_after


class PreviousRun(msgspec.Struct, frozen=True):
    """The previous run of a DAG. `states` has the states of its tasks by id; None if it has not started."""

    states: Mapping[str, TaskState] | None


class QueuedRun(msgspec.Struct, frozen=True):
    """A queued run, with the graph of the version that it is pinned to."""

    run: RunView
    graph: Graph


class PendingEvent(msgspec.Struct, frozen=True):
    """A row of `dataset_dag_run_queue`, under the lock of its DAG.

    `extra`, JSON, is read only for DAGs that inspect events.
    """

    dataset_id: int
    dataset_event_id: int
    uri: str
    occurred_at: datetime
    arrived_at: datetime = FAR_FUTURE
    extra: str = "{}"

    @property
    def time(self) -> datetime:
        """When the event occurred; if the clock of its producer is ahead, when it arrived."""
        return min(self.occurred_at, self.arrived_at)


class Input(NamedTuple):
    """A pending event, and the leaves of a condition that it is an input of."""

    event: PendingEvent
    leaves: tuple[Leaf, ...]


class LockedDag(msgspec.Struct, frozen=True):
    """The row of a locked DAG.

    `next_run_id` is reserved for a run that this transaction may create. `failed_runs` counts the failed runs since the last
    success. `last_tick` is the last decided tick of the timetable; `timed_since` is when the DAG got a timetable; `due_at` is
    when the clock visits the DAG next. `dataset_run_at` is when the condition last made a run; input deadlines up to
    `deadline_at` are decided; both are None if the schedule does not need them. `last_source` is the source that was served last
    when several could start a run (`tidegate.handlers.scheduling.round_robin.Source`). `catchup_until` ends the catchup
    interval after the last late timed run. `backfilled_by_txn` is the last
    transaction that queued events from the ledger.
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
    catchup_until: datetime | None = None
    backfilled_by_txn: int = 0

    @property
    def is_inactive(self) -> bool:
        """Whether no run may start, because the DAG is paused or stale."""
        return self.is_paused or self.is_stale


class DagActivity(msgspec.Struct, frozen=True):
    """The active runs of a DAG, and the dataset of its oldest pending event from `low_watermark` on; None: none is pending.

    `queued` counts the queued runs whose `run_after` has come; `next_queued_at` is the next `run_after` of the others. No
    transaction can still queue an event below `settled`.
    """

    running: int
    queued: int
    next_queued_at: datetime | None
    oldest_dataset_id: int | None
    low_watermark: int = 0
    settled: int = 0

    @property
    def has_pending(self) -> bool:
        return self.oldest_dataset_id is not None


class DagView(LockedDag, frozen=True, kw_only=True):
    """A locked DAG, with the rows that its read plan names (`tidegate.schemas.read_plan`).

    `running`, `queued` and `next_queued_at` are as in `DagActivity`. `queued_runs` are the first queued runs in the order of
    promotion, as many as one decision may start. `pending` are the oldest pending events. `more_pending` counts the others up to
    a bound; the newest arrived at `newest_at`. A run consumes at most `run_events` events. `unread`: the DAG inspects events, but
    its pending events were not read; `arrived` are then its new events. `inputs` are the pending events with the leaves of the
    condition that they match, once a decision has inspected them.

    `run_dates` are the first `MAX_RUN_DATES` logical dates after `last_tick` that have a run. `timed_run_ids` and `event_run_ids`
    are reserved, the latter for dataset runs beyond the first. `was_full`: the run limit was reached until a run ended now.
    """

    running: int
    queued: int
    was_full: bool = False
    run_dates: frozenset[datetime] = frozenset()
    timed_run_ids: tuple[int, ...] = ()
    event_run_ids: tuple[int, ...] = ()
    unread: bool = False
    arrived: tuple[PendingEvent, ...] = ()
    inputs: tuple[Input, ...] | None = None
    next_queued_at: datetime | None = None
    queued_runs: tuple[QueuedRun, ...] = ()
    pending: tuple[PendingEvent, ...] = ()
    more_pending: int = 0
    newest_at: datetime | None = None
    run_events: int = RUN_EVENTS


class Instance(msgspec.Struct, Columns):
    """A task instance of a locked run. `max_tries` is the number of its last try.

    `awaited` counts the instances that it waits for, and `success` to `upstream_failed` how many of them ended in each state.
    `waits_for_past`: the previous run does not allow it yet. `elements`: the number of instances of an expanded mapped task,
    which waits for these instances. `reason`: why it has its state; None: as it is stored.
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
    reason: str | None = None


class WaitingTask(msgspec.Struct, frozen=True):
    """A task instance that waits for slots. `per_dag` and `per_run` are limits of its task.

    `is_paused`: its DAG is paused. `hold_reason`: why its DAG is held; None if it is not. `is_attempted`: an earlier attempt is
    still open. `backfill_id` is that of its run.
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
    hold_reason: str | None = None
    is_attempted: bool = False
    backfill_id: int | None = None

    @property
    def key(self) -> TaskKey:
        return self.dag_run_id, self.task_index


class Candidate(NamedTuple):
    """A task instance that may get slots. `limited_in`: its DAG, if runs of it share a limit for the task."""

    dag_run_id: int
    task_index: int
    limited_in: str | None

    @property
    def key(self) -> TaskKey:
        return self.dag_run_id, self.task_index


class StarvingTask(NamedTuple):
    """A candidate that has waited long. `limits_left`: how many more tasks each limit on it admits."""

    candidate: Candidate
    limits_left: Mapping[LimitOwner, int]


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: `open` of its `slots` are free; `parallel` more tasks may be active in the installation. None: unlimited.

    `admitted` counts tasks that got slots while others were starving. `waits_since` is the start of the oldest wait for slots, if
    it was read. `parallelism` limits the active tasks of the installation, 0 for no limit. A pool that does not exist has no
    capacity.
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
        """The most tasks that may get a slot."""
        limits = [limit for limit in (self.open, self.parallel) if limit is not None]
        return max(min(limits, default=NO_LIMIT), 0)


class DeadlineView(msgspec.Struct, frozen=True):
    """A locked open deadline of a run, or with `task_id` of one of its tasks."""

    id: int
    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class SubmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, read after its run was locked.

    `token` proves its end. `kill_reason` and `kill_cause` are set once a kill is requested. `killed_before` counts the attempts
    just before it that were killed for the same cause: an attempt that started, or ended otherwise, ends the count. `host` runs
    the attempt, or ran it, on the `backend`.
    """

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    state: SubmissionState
    token: str
    kill_reason: str | None = None
    kill_cause: KillCause | None = None
    killed_before: int = 0
    host: str | None = None
    backend: str = ""
