"""Which waiting tasks get slots under all limits."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph, run_view
from tests.unit.handlers.admission_states import READY, found
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.handlers.tasks_ready import decide
from tidegate.schemas.effect.submission import InsertSubmission
from tidegate.schemas.effect.task import AdmitAgain, CountAdmitted
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, RunView, WaitingTask


def waiting(run: int, index: int = 0, **facts: Any) -> WaitingTask:
    """Task `t<index>` of a run."""
    return msgspec.structs.replace(WaitingTask(run, index, "d", f"t{index}", TaskState.SCHEDULED, 0), **facts)


def running(id_: int, **facts: Any) -> RunView:
    return run_view(id_, state=RunState.RUNNING, **facts)


def queue(
    *tasks: WaitingTask,
    slots: int | None = 100,
    runs: Sequence[RunView] = (),
    limited: Sequence[tuple[str, int, str]] = (),
    **pool: Any,
) -> AdmissionState:
    """These wait for a pool with `slots` free; their runs are at work, but for those given."""
    found = {task.dag_run_id: running(task.dag_run_id) for task in tasks} | {run.id: run for run in runs}
    return AdmissionState(NOW, PoolView(name="p", open=slots, **pool), tasks, limited=tuple(limited), runs=found)


def chosen(state: AdmissionState) -> list[tuple[int, int]]:
    return [task.key for task in select_tasks(Capacity(state))]


def test_free_slots_are_given_in_queue_order() -> None:
    world = SimulatedRun(graph("a", "b", "c"))

    effects = list(decide(READY, found(world, slots=2)))

    assert [effect.task_index for effect in effects if isinstance(effect, InsertSubmission)] == [0, 1]


A, B = waiting(1, 0), waiting(1, 1)
FULL = running(1, active_tasks=16)


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        pytest.param(queue(A, B, slots=1), [(1, 0)], id="P01 one slot, two tasks"),
        pytest.param(queue(A, B, slots=100), [(1, 0), (1, 1)], id="P01 slots for all"),
        pytest.param(queue(waiting(2), waiting(1), slots=1), [(2, 0)], id="P04 the first in the queue, whichever its DAG"),
        pytest.param(queue(A, slots=-3), [], id="P08 over-committed"),
        pytest.param(queue(A, slots=0), [], id="P08 P09 no slot at all"),
        pytest.param(queue(A, B, slots=None), [(1, 0), (1, 1)], id="P10 P23 any number"),
        pytest.param(queue(waiting(1, pool_slots=9), slots=None), [(1, 0)], id="P10 any number of slots"),
        pytest.param(queue(waiting(1, pool_slots=3), B, slots=2), [(1, 1)], id="P10 a task larger than the pool blocks no other"),
        pytest.param(queue(waiting(1, pool_slots=2), B, slots=2), [(1, 0)], id="a task takes as many slots as it needs"),
        pytest.param(queue(A, B, parallel=1), [(1, 0)], id="P19 one more in the whole installation"),
        pytest.param(queue(A, B, parallel=0), [], id="P19 no more in the whole installation"),
        pytest.param(queue(A, B, slots=None, parallel=None), [(1, 0), (1, 1)], id="P19 no limit for the installation"),
        pytest.param(queue(A, waiting(2), runs=[FULL]), [(2, 0)], id="P15 a run at its limit blocks no other"),
        pytest.param(queue(A, waiting(1)), [(1, 0)], id="a task that is listed twice"),
    ],
)
def test_tasks_that_fit_get_slots_in_order(state: AdmissionState, keys: Sequence[tuple[int, int]]) -> None:
    assert chosen(state) == keys


@pytest.mark.parametrize(("active", "admitted"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_max_active_tasks_of_a_run_holds(active: int, admitted: int) -> None:
    """P11"""
    state = queue(*(waiting(1, index) for index in range(5)), runs=[running(1, active_tasks=active, max_active_tasks=2)])

    assert len(chosen(state)) == admitted


@pytest.mark.parametrize(
    ("limits", "limited", "keys"),
    [
        pytest.param({"per_dag": 2}, [], [(1, 0), (2, 0)], id="P12 across runs"),
        pytest.param({"per_dag": 2}, [("d", 9, "t0")], [(1, 0)], id="P12 one works in a run that asks for nothing"),
        pytest.param({"per_dag": 2}, [("d", 9, "t0"), ("d", 8, "t0")], [], id="P12 all it may have"),
        pytest.param({"per_dag": 2}, [("d", 9, "t1"), ("e", 9, "t0")], [(1, 0), (2, 0)], id="P12 others do not count"),
        pytest.param({"per_run": 1}, [], [(1, 0), (2, 0), (3, 0)], id="each run by itself"),
        pytest.param({"per_run": 1}, [("d", 2, "t0")], [(1, 0), (3, 0)], id="one works in its run"),
        pytest.param({"per_run": 1, "per_dag": 2}, [("d", 1, "t0")], [(2, 0)], id="both limits hold"),
    ],
)
def test_limits_of_a_task_hold(
    limits: Mapping[str, int], limited: Sequence[tuple[str, int, str]], keys: Sequence[tuple[int, int]]
) -> None:
    state = queue(*(waiting(run, **limits) for run in (1, 2, 3)), limited=limited)

    assert chosen(state) == keys


@pytest.mark.parametrize(
    ("pool", "free"),
    [
        pytest.param(PoolView(name="p", open=7), 7, id="P23 what is open"),
        pytest.param(PoolView(name="p", open=7, parallel=3), 3, id="P19 the whole installation has less"),
        pytest.param(PoolView(name="p", open=-2), 0, id="P08 over-committed"),
        pytest.param(PoolView(name="p", open=7, parallel=-2), 0, id="P08 the whole installation is over-committed"),
        pytest.param(PoolView(name="p", open=None, parallel=3), 3, id="P23 infinite, within the whole installation"),
    ],
)
def test_a_pool_has_as_many_free_slots_as_the_smaller_limit(pool: PoolView, free: int) -> None:
    assert pool.free == free


def test_admissions_are_counted_while_tasks_starve() -> None:
    world = SimulatedRun(graph("a", "b", "c"))
    state = msgspec.structs.replace(found(world, slots=2), starving=world.waiting("c"))

    effects = list(decide(READY, state))

    assert [effect for effect in effects if isinstance(effect, CountAdmitted)] == [CountAdmitted("default_pool", 2)]


@pytest.mark.parametrize(("slots", "long"), [(2, ()), (0, ("c",))], ids=["no task starves", "no task is admitted"])
def test_other_admissions_are_not_counted(slots: int, long: Sequence[str]) -> None:
    world = SimulatedRun(graph("a", "b", "c"))
    state = msgspec.structs.replace(found(world, slots=slots), starving=world.waiting(*long))

    effects = list(decide(READY, state))

    assert not any(isinstance(effect, CountAdmitted) for effect in effects)


@pytest.mark.parametrize(
    ("slots", "cut", "again"),
    [
        pytest.param(2, True, True, id="capacity is left, and more tasks may wait"),
        pytest.param(2, False, False, id="all that wait were looked at"),
        pytest.param(1, True, False, id="no capacity is left"),
        pytest.param(0, True, False, id="there was none to begin with"),
        pytest.param(None, True, True, id="unlimited capacity"),
    ],
)
def test_the_pool_is_admitted_again_if_more_tasks_may_fit(slots: int | None, cut: bool, again: bool) -> None:
    state = msgspec.structs.replace(found(SimulatedRun(graph("a")), slots=slots), has_more=cut)

    effects = list(decide(READY, state))

    assert [effect for effect in effects if isinstance(effect, AdmitAgain)] == [AdmitAgain()] * again


def test_the_pool_is_not_admitted_again_while_its_slots_are_reserved() -> None:
    world = SimulatedRun(graph("a", "b"))
    state = found(world, slots=2)
    light, heavy = state.waiting
    state = msgspec.structs.replace(
        state,
        pool=PoolView(name="default_pool", open=2, slots=4, admitted=2),
        waiting=(light,),
        starving=(msgspec.structs.replace(heavy, pool_slots=3),),
        has_more=True,
    )

    effects = list(decide(READY, state))

    assert [effect for effect in effects if isinstance(effect, AdmitAgain)] == []
    assert [effect for effect in effects if isinstance(effect, CountAdmitted)] == [CountAdmitted("default_pool", 1)]
