"""What is left of a pool and of every limit, and what of it holds up a task.

The answer that admits is the answer that explains.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from tidegate.schemas.explain import reasons as shown
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, RunView, WaitingTask

Limit = (
    shown.DagPaused
    | shown.RunLimit
    | shown.TaskLimitInRun
    | shown.TaskLimitInDag
    | shown.Parallelism
    | shown.AttemptOpen
    | shown.PoolMissing
    | shown.PoolTooSmall
)
"""What holds up a task however many slots of its pool are free."""


class State(msgspec.Struct, frozen=True):
    """A pool; the candidates in order and those that wait longest, with their runs.

    `limited` are the active instances of tasks with limits of their own, as (DAG, run, task). `cut`: more may wait than the
    candidates.
    """

    now: datetime
    pool: PoolView
    waiting: tuple[WaitingTask, ...] = ()
    longest: tuple[WaitingTask, ...] = ()
    limited: tuple[tuple[str, int, str], ...] = ()
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    cut: bool = False


class Room:
    """What is left of the pool and of every limit while slots are given away."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.slots = state.pool.open
        self.tasks = state.pool.parallel
        self.active = Counter({id_: run.active_tasks for id_, run in state.runs.items()})
        self.in_dag = Counter((dag_id, task_id) for dag_id, _, task_id in state.limited)
        self.in_run = Counter((run, task_id) for _, run, task_id in state.limited)
        self.given: set[tuple[int, int]] = set()

    @property
    def is_left(self) -> bool:
        """Whether anybody could still be given anything."""
        return self.slots != 0 and self.tasks != 0

    def next_of(self, queue: deque[WaitingTask]) -> WaitingTask | None:
        """The first that fits; those before it are passed over."""
        return next((task for task in _emptied(queue) if self.fits(task)), None)

    def next_but_for_slots(self, queue: deque[WaitingTask]) -> WaitingTask | None:
        """The first that would fit if enough slots were free; those before it are passed over."""
        return next((task for task in _emptied(queue) if self.may_go(task)), None)

    def fits(self, task: WaitingTask) -> bool:
        return self.lacking(task) is None and self.may_go(task)

    def may_go(self, task: WaitingTask) -> bool:
        """Whether nothing but the slots of the pool may hold it up."""
        return self.waits(task) and next(self.limits(task), None) is None

    def waits(self, task: WaitingTask) -> bool:
        """Whether it wants slots at all."""
        return (
            task.state is TaskState.SCHEDULED
            and self.state.runs[task.dag_run_id].state is RunState.RUNNING
            and task.key not in self.given
        )

    def limits(self, task: WaitingTask) -> Iterator[Limit]:
        """All that holds it up but slots that come free."""
        run = self.state.runs[task.dag_run_id]
        if task.is_paused:
            yield shown.DagPaused()
        if task.is_attempted:
            yield shown.AttemptOpen()
        if self.active[run.id] >= run.max_active_tasks:
            yield shown.RunLimit(run.max_active_tasks)
        if task.per_run is not None and self.in_run[run.id, task.task_id] >= task.per_run:
            yield shown.TaskLimitInRun(task.per_run)
        if task.per_dag is not None and self.in_dag[task.dag_id, task.task_id] >= task.per_dag:
            yield shown.TaskLimitInDag(task.per_dag)
        yield from self._limits_of_all(task)

    def _limits_of_all(self, task: WaitingTask) -> Iterator[Limit]:
        pool = self.state.pool
        if self.tasks is not None and self.tasks <= 0:
            yield shown.Parallelism(pool.parallelism)
        if not pool.exists:
            yield shown.PoolMissing(pool.name)
        elif pool.slots is not None and task.pool_slots > pool.slots:
            yield shown.PoolTooSmall(pool.name, pool.slots, task.pool_slots)

    def lacking(self, task: WaitingTask) -> shown.PoolFull | None:
        """Too few free slots, if so."""
        if self.slots is None or task.pool_slots <= self.slots:
            return None
        return shown.PoolFull(self.state.pool.name, self.state.pool.slots or 0, self.slots, task.pool_slots)

    def blocks(self, task: WaitingTask) -> tuple[Limit | shown.PoolFull, ...]:
        """All that holds up a task that wants slots. Of a pool that is too small it does not matter how much is free."""
        found = tuple(self.limits(task))
        lacking = self.lacking(task)
        hopeless = any(isinstance(block, shown.PoolMissing | shown.PoolTooSmall) for block in found)
        return found if lacking is None or hopeless else (*found, lacking)

    def keep(self) -> None:
        """What is free is given to nobody now."""
        self.slots = 0

    def give(self, task: WaitingTask) -> None:
        self.given.add(task.key)
        self.active[task.dag_run_id] += 1
        self.in_run[task.dag_run_id, task.task_id] += 1
        self.in_dag[task.dag_id, task.task_id] += 1
        if self.slots is not None:
            self.slots -= task.pool_slots
        if self.tasks is not None:
            self.tasks -= 1


def _emptied(queue: deque[WaitingTask]) -> Iterator[WaitingTask]:
    while queue:
        yield queue.popleft()
