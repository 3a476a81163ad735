"""What is left of a pool and of every task limit, and what of it blocks a task.

Admission, progress pages and `why-not` ask the same functions.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from tidegate.schemas.backfill import BackfillRoom
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.reasons import AdmissionBlocker
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, RunView, WaitingTask


class AdmissionState(msgspec.Struct, frozen=True):
    """A pool with its queue. `waiting` are the candidates in queue order, `starving` have waited longer than `fair_after_s`.

    `limited` are the active instances of tasks with limits of their own, as (DAG, run, task). `backfills` are those of the
    runs. `has_more`: the queue may be
    longer than `waiting`. `installation` is the id of the database.
    """

    now: datetime
    pool: PoolView
    waiting: tuple[WaitingTask, ...] = ()
    starving: tuple[WaitingTask, ...] = ()
    limited: tuple[tuple[str, int, str], ...] = ()
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    has_more: bool = False
    installation: str = ""
    backfills: Mapping[int, BackfillRoom] = {}


class Capacity:
    """What is left of the pool and of every limit; `admit` takes from it."""

    def __init__(self, state: AdmissionState) -> None:
        self.state = state
        self.slots = state.pool.open
        self.tasks = state.pool.parallel
        self.active = Counter({id_: run.active_tasks for id_, run in state.runs.items()})
        self.active_in_dag = Counter((dag_id, task_id) for dag_id, _, task_id in state.limited)
        self.active_in_run = Counter((run, task_id) for _, run, task_id in state.limited)
        self.of_backfill = Counter({id_: room.active_tasks for id_, room in state.backfills.items()})
        self.slots_of_backfill = Counter({id_: room.occupied for id_, room in state.backfills.items()})
        self.admitted: set[tuple[int, int]] = set()

    @property
    def is_left(self) -> bool:
        """Whether a task that needs one slot and has no limits could be admitted."""
        return self.slots != 0 and self.tasks != 0

    def pop_fitting(self, queue: deque[WaitingTask]) -> WaitingTask | None:
        """The first task that fits; the ones before it leave the queue."""
        return next((task for task in _popped(queue) if self.fits(task)), None)

    def pop_within_limits(self, queue: deque[WaitingTask]) -> WaitingTask | None:
        """The first task that would fit if enough slots were free; the ones before it leave the queue."""
        return next((task for task in _popped(queue) if self.is_within_limits(task)), None)

    def fits(self, task: WaitingTask) -> bool:
        return self.missing_slots(task) is None and self.is_within_limits(task)

    def is_within_limits(self, task: WaitingTask) -> bool:
        """Whether only missing slots could block the task."""
        return self.wants_slots(task) and next(self.limits_reached(task), None) is None

    def wants_slots(self, task: WaitingTask) -> bool:
        return (
            task.state is TaskState.SCHEDULED
            and self.state.runs[task.dag_run_id].state is RunState.RUNNING
            and task.key not in self.admitted
        )

    def limits_reached(self, task: WaitingTask) -> Iterator[AdmissionBlocker]:
        run = self.state.runs[task.dag_run_id]
        if task.is_paused:
            yield reasons.DagPaused()
        if task.is_attempted:
            yield reasons.AttemptOpen()
        if self.active[run.id] >= run.max_active_tasks:
            yield reasons.MaxActiveTasks(run.max_active_tasks)
        if task.per_run is not None and self.active_in_run[run.id, task.task_id] >= task.per_run:
            yield reasons.MaxActiveTisPerDagrun(task.per_run)
        if task.per_dag is not None and self.active_in_dag[task.dag_id, task.task_id] >= task.per_dag:
            yield reasons.MaxActiveTisPerDag(task.per_dag)
        if task.backfill_id is not None and (room := self.state.backfills.get(task.backfill_id)):
            yield from self._backfill_limits_reached(task, room)
        yield from self._pool_limits_reached(task)

    def _backfill_limits_reached(self, task: WaitingTask, room: BackfillRoom) -> Iterator[AdmissionBlocker]:
        if room.max_active_tasks is not None and self.of_backfill[room.id] >= room.max_active_tasks:
            yield reasons.BackfillLimit(room.id, "max_active_tasks", room.max_active_tasks)
        occupied = self.slots_of_backfill[room.id]
        # A task that needs more slots than the share has runs alone.
        if room.share_slots is not None and occupied and occupied + task.pool_slots > room.share_slots:
            yield reasons.BackfillLimit(room.id, "share", room.share_slots)

    def _pool_limits_reached(self, task: WaitingTask) -> Iterator[AdmissionBlocker]:
        pool = self.state.pool
        if self.tasks is not None and self.tasks <= 0:
            yield reasons.Parallelism(pool.parallelism)
        if not pool.exists:
            yield reasons.PoolMissing(pool.name)
        elif pool.slots is not None and task.pool_slots > pool.slots:
            yield reasons.PoolTooSmall(pool.name, pool.slots, task.pool_slots)

    def missing_slots(self, task: WaitingTask) -> reasons.PoolFull | None:
        if self.slots is None or task.pool_slots <= self.slots:
            return None
        return reasons.PoolFull(self.state.pool.name, self.state.pool.slots or 0, self.slots, task.pool_slots)

    def blockers(self, task: WaitingTask) -> tuple[AdmissionBlocker, ...]:
        """All that blocks a task which wants slots. A missing or too small pool hides how many of its slots are free."""
        limits = tuple(self.limits_reached(task))
        missing = self.missing_slots(task)
        never_fits = any(isinstance(limit, reasons.PoolMissing | reasons.PoolTooSmall) for limit in limits)
        return limits if missing is None or never_fits else (*limits, missing)

    def reserve_all(self) -> None:
        """Keep the free slots for a starving task that needs more: this admission gives them to no other."""
        self.slots = 0

    def admit(self, task: WaitingTask) -> None:
        self.admitted.add(task.key)
        self.active[task.dag_run_id] += 1
        self.active_in_run[task.dag_run_id, task.task_id] += 1
        self.active_in_dag[task.dag_id, task.task_id] += 1
        if task.backfill_id is not None:
            self.of_backfill[task.backfill_id] += 1
            self.slots_of_backfill[task.backfill_id] += task.pool_slots
        if self.slots is not None:
            self.slots -= task.pool_slots
        if self.tasks is not None:
            self.tasks -= 1


def _popped(queue: deque[WaitingTask]) -> Iterator[WaitingTask]:
    while queue:
        yield queue.popleft()
