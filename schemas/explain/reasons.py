"""How far a run has come, as it is shown: what works, what waits, and what each thing waits for."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tidegate.schemas.state import RunState, TaskState


class UpstreamNotDone(msgspec.Struct, frozen=True, tag="upstream", tag_field="kind"):
    """These tasks directly before it have not ended, and its trigger rule cannot decide without them."""

    task_ids: tuple[str, ...]


class ElementsNotDone(msgspec.Struct, frozen=True, tag="elements", tag_field="kind"):
    """The task is mapped over a list: of its instances so many have not ended."""

    left: int
    total: int


class RunBefore(msgspec.Struct, frozen=True, tag="run_before", tag_field="kind"):
    """The task waits for what the run before this one does."""

    run_id: str | None


class NextTry(msgspec.Struct, frozen=True, tag="next_try", tag_field="kind"):
    """It failed, and is tried again then."""

    at: datetime | None


class PoolMissing(msgspec.Struct, frozen=True, tag="pool_missing", tag_field="kind"):
    """There is no such pool: the task waits until somebody creates it."""

    pool: str


class PoolTooSmall(msgspec.Struct, frozen=True, tag="pool_too_small", tag_field="kind"):
    """The task needs more slots than the pool has: it waits until somebody changes that."""

    pool: str
    slots: int
    wanted: int


class PoolFull(msgspec.Struct, frozen=True, tag="pool_full", tag_field="kind"):
    """Fewer slots of the pool are open than the task needs."""

    pool: str
    slots: int
    open: int
    wanted: int


class RunLimit(msgspec.Struct, frozen=True, tag="max_active_tasks", tag_field="kind"):
    """As many tasks of the run work as may."""

    limit: int


class TaskLimitInDag(msgspec.Struct, frozen=True, tag="max_active_tis_per_dag", tag_field="kind"):
    """As many instances of the task work, in all runs of the DAG, as may."""

    limit: int


class TaskLimitInRun(msgspec.Struct, frozen=True, tag="max_active_tis_per_dagrun", tag_field="kind"):
    """As many instances of the task work, in this run, as may."""

    limit: int


class Parallelism(msgspec.Struct, frozen=True, tag="parallelism", tag_field="kind"):
    """As many tasks work in the whole installation as may."""

    limit: int


class AttemptOpen(msgspec.Struct, frozen=True, tag="attempt_open", tag_field="kind"):
    """A user decided about the task while it was at work, and its attempt has not ended: no two run at a time."""


class DagPaused(msgspec.Struct, frozen=True, tag="dag_paused", tag_field="kind"):
    """The DAG starts no runs and no tasks."""


class DagStale(msgspec.Struct, frozen=True, tag="dag_stale", tag_field="kind"):
    """No DAG file has the DAG any more."""


class DagLimit(msgspec.Struct, frozen=True, tag="max_active_runs", tag_field="kind"):
    """As many runs of the DAG work as may."""

    limit: int


class RunsAhead(msgspec.Struct, frozen=True, tag="runs_ahead", tag_field="kind"):
    """So many queued runs of the DAG come first."""

    count: int


class NotYetDue(msgspec.Struct, frozen=True, tag="run_after", tag_field="kind"):
    """The run starts then at the earliest."""

    at: datetime


class NoDaemon(msgspec.Struct, frozen=True, tag="no_daemon", tag_field="kind"):
    """No daemon shows any life."""


Turn = UpstreamNotDone | ElementsNotDone | RunBefore | NextTry | NotYetDue | RunsAhead
Slots = PoolMissing | PoolTooSmall | PoolFull
Limit = RunLimit | TaskLimitInRun | TaskLimitInDag | Parallelism | DagLimit | AttemptOpen
Held = DagPaused | DagStale | NoDaemon

TaskBlock = (
    UpstreamNotDone
    | ElementsNotDone
    | RunBefore
    | NextTry
    | DagPaused
    | RunLimit
    | TaskLimitInRun
    | TaskLimitInDag
    | Parallelism
    | AttemptOpen
    | Slots
)
RunBlock = NotYetDue | RunsAhead | DagLimit | Held
Block = Turn | Slots | Limit | Held


class Working(msgspec.Struct, frozen=True):
    """A task whose attempt is under way. `since` is when that was started, or began to wait for its backend."""

    task_id: str
    state: TaskState
    try_number: int
    since: datetime | None
    backend: str | None
    host: str | None


class Waiting(msgspec.Struct, frozen=True):
    """A task that neither works nor has ended; with nothing in `blocked_by`, its turn is about to come."""

    task_id: str
    state: TaskState
    blocked_by: tuple[TaskBlock, ...]


class Progress(msgspec.Struct, frozen=True):
    """How far a run has come. `blocked_by` is what the run as a whole waits for; its tasks appear once it has started.

    A mapped task counts as one; each of its instances, `load[3]`, works or waits by itself.
    """

    dag_id: str
    run_id: str
    state: RunState
    tasks: int
    ended: int
    counts: Mapping[TaskState, int]
    blocked_by: tuple[RunBlock, ...]
    working: tuple[Working, ...]
    waiting: tuple[Waiting, ...]
