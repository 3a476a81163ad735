"""What is left of a pool and of every task limit, and what of it blocks a task.

Admission, progress pages and `why-not` ask the same functions.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Set
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.reasons import AdmissionBlocker
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, RunView, TaskKey, WaitingTask


class AdmissionState(msgspec.Struct, frozen=True):
    """A pool with its queue. `waiting` are the candidates in queue order, `starving` have waited longer than `fair_after_s`.

    `limited` are the active instances of tasks with limits of their own, as (DAG, run, task). `backfills` are those of the
    runs. `has_more`: the queue may be longer than `waiting`. A preview lacks `graphs` and `installation`, the id of the database.
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
    backfills: Mapping[int, BackfillCapacity] = {}


class KeptShare(NamedTuple):
    """A starving task for which the share of its backfill is kept: only this task and `older` ones may take slots of the share.

    Otherwise smaller tasks of the backfill could take each free slot, and the task would wait for ever.
    """

    key: TaskKey
    older: Set[TaskKey]


class Capacity:
    """What is left of the pool and of every limit; `admit` takes from it.

    `has_released`: a share is kept no longer, and tasks that left the queue before may fit now.
    """

    def __init__(self, state: AdmissionState) -> None:
        self.state = state
        self.slots = state.pool.open
        self.tasks = state.pool.parallel
        self.active = Counter({id_: run.active_tasks for id_, run in state.runs.items()})
        self.active_in_dag = Counter((dag_id, task_id) for dag_id, _, task_id in state.limited)
        self.active_in_run = Counter((run, task_id) for _, run, task_id in state.limited)
        self.of_backfill = Counter({id_: backfill.active_tasks for id_, backfill in state.backfills.items()})
        self.slots_of_backfill = Counter({id_: backfill.occupied for id_, backfill in state.backfills.items()})
        self.admitted: set[TaskKey] = set()
        self.kept: dict[int, KeptShare] = {}
        self.kept = self._kept_shares()
        self.has_released = False

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
        if task.hold_reason is not None:
            yield reasons.DagHeld(task.hold_reason)
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
        if task.backfill_id is not None and (backfill := self.state.backfills.get(task.backfill_id)):
            yield from self._backfill_limits_reached(task, backfill)
        yield from self._pool_limits_reached(task)

    def _backfill_limits_reached(self, task: WaitingTask, backfill: BackfillCapacity) -> Iterator[AdmissionBlocker]:
        if backfill.max_active_tasks is not None and self.of_backfill[backfill.id] >= backfill.max_active_tasks:
            yield reasons.BackfillLimit(backfill.id, "max_active_tasks", backfill.max_active_tasks)
        occupied = self.slots_of_backfill[backfill.id]
        # A task that needs more slots than the share has runs alone.
        exceeds = backfill.share_slots is not None and occupied and occupied + task.pool_slots > backfill.share_slots
        is_kept = backfill.id in self.kept and task.key not in self.kept[backfill.id].older
        if backfill.share_slots is not None and (exceeds or is_kept):
            yield reasons.BackfillLimit(backfill.id, "share", backfill.share_slots)

    def _kept_shares(self) -> dict[int, KeptShare]:
        """By backfill, the starving task of several slots for which its share is kept."""
        kept: dict[int, KeptShare] = {}
        older: dict[int, set[TaskKey]] = defaultdict(set)
        for task in self.state.starving:
            if task.backfill_id is not None and task.backfill_id not in kept and self.wants_slots(task):
                older[task.backfill_id].add(task.key)
                if task.pool_slots > 1 and self._only_share_blocks(task):
                    kept[task.backfill_id] = KeptShare(task.key, older[task.backfill_id])
        return kept

    def _only_share_blocks(self, task: WaitingTask) -> bool:
        """Whether nothing but the share of its backfill, or missing slots, could block the task."""
        limits = tuple(self.limits_reached(task))
        return all(isinstance(limit, reasons.BackfillLimit) and limit.limit == "share" for limit in limits)

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
        """Every blocker of a task that wants slots. Where the pool is missing or too small, its free slots do not matter."""
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
            self._admit_of_backfill(task, task.backfill_id)
        if self.slots is not None:
            self.slots -= task.pool_slots
        if self.tasks is not None:
            self.tasks -= 1

    def _admit_of_backfill(self, task: WaitingTask, backfill_id: int) -> None:
        self.of_backfill[backfill_id] += 1
        self.slots_of_backfill[backfill_id] += task.pool_slots
        kept = self.kept.get(backfill_id)
        if kept is not None and kept.key == task.key:
            del self.kept[backfill_id]
            self.has_released = True


def _popped(queue: deque[WaitingTask]) -> Iterator[WaitingTask]:
    while queue:
        yield queue.popleft()
