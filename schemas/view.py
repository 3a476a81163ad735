"""What decisions find: rows as they were read under their locks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.conditions.condition import Leaf
from tidegate.schemas.explain.reasons import DagPaused, DagStale
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, RunType, SubmissionState, TaskState
from tidegate.schemas.timetable.tick import Tick

LATEST = datetime.max.replace(tzinfo=UTC)


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A locked run. Counters as in `tidegate.schemas.effect.UpdateRun`; at most `max_active_tasks` may be active."""

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


class RunFacts(msgspec.Struct, frozen=True):
    """A run and its DAG. `running_runs` of the DAG are running; `runs_ahead` queued runs start before this one.

    `run_before` is the previous run in the DAG's order, in whichever state.
    """

    run: RunView
    newest_version_id: int
    is_paused: bool
    is_stale: bool
    running_runs: int
    runs_ahead: int
    run_before: str | None


class QueuedRun(msgspec.Struct, frozen=True):
    """A run that waits for its turn, with the graph of the version it is pinned to."""

    run: RunView
    graph: Graph


class PendingEvent(msgspec.Struct, frozen=True):
    """A locked row of `dataset_dag_run_queue`. `extra` is JSON; it and the arrival are read only for DAGs that look at them."""

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


class DagView(msgspec.Struct, frozen=True, kw_only=True):
    """A locked DAG and what waits for it.

    `running` counts its runs in that state, `queued` those that wait and whose time has come; `next_queued_at` is when it comes
    for the next of the others. `waiting` are its first queued runs in the order of promotion, at least as many as may start
    now; `pending` all its pending events. Both may be empty when the DAG could not use them anyway; where it is so although
    something is pending, and the DAG looks closer at events, it is `unread`, and `arrived` is what is new of that. `inputs` are
    what the pending events are for its condition, once a decision has looked.

    It has had a timetable since `timed_since`; `last_tick` is the last one that this has come to, `taken` are the logical dates
    after it that have a run already, `due_at` is when the clock is to look at the DAG again. `next_run_id` and `tick_run_ids`
    are reserved for runs that this decision may create, `event_run_ids` for more dataset runs than one. `failed_runs` is how many
    of its runs have failed in a row. `dataset_run_at` is when its condition last made a run, `deadline_at` up to when deadlines
    of its condition have been dealt with; both are kept only where they matter. `turn` is what had the last turn when
    more than one thing asked for a run (`tidegate.handlers.scheduling.round_robin.Source`).
    """

    graph: Graph
    is_paused: bool
    is_stale: bool
    running: int
    queued: int
    next_run_id: int
    failed_runs: int = 0
    last_tick: Tick | None = None
    due_at: datetime | None = None
    timed_since: datetime | None = None
    taken: frozenset[datetime] = frozenset()
    tick_run_ids: tuple[int, ...] = ()
    event_run_ids: tuple[int, ...] = ()
    dataset_run_at: datetime | None = None
    deadline_at: datetime | None = None
    turn: str | None = None
    unread: bool = False
    arrived: tuple[PendingEvent, ...] = ()
    inputs: tuple[Input, ...] | None = None
    next_queued_at: datetime | None = None
    waiting: tuple[QueuedRun, ...] = ()
    pending: tuple[PendingEvent, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether no run may start, however much room there is."""
        return bool(held_by(is_paused=self.is_paused, is_stale=self.is_stale))


def held_by(*, is_paused: bool, is_stale: bool) -> tuple[DagPaused | DagStale, ...]:
    """What keeps all runs of a DAG from starting."""
    return (DagPaused(),) * is_paused + (DagStale(),) * is_stale


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

    `admitted` counts tasks that were given slots while others waited for long. Somebody has waited for slots since
    `waits_since`, as far as that was looked at. `parallelism` is how many tasks may be active in all, 0 for any number. One
    that does not `exist` has no room.
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
    """A locked deadline that nobody has met or missed yet; of a task where it has a `task_id`."""

    id: int
    dag_run_id: int
    task_id: str | None
    name: str
    due_at: datetime


class SubmissionView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, read after its run was locked.

    `kill_reason`: why it is to be killed, if it is. `killed_before`: how many earlier attempts of its task were, for the same.
    """

    submission_id: UUID
    dag_run_id: int
    task_index: int
    try_number: int
    state: SubmissionState
    kill_reason: str | None = None
    killed_before: int = 0
