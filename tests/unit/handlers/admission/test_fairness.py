"""Properties of admission: no limit is exceeded, no task that fits is left, no task starves."""

from collections import Counter
from collections.abc import Mapping
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import NOW, run_view
from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import FAIR_EVERY, select_tasks
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, WaitingTask

CHANCES = st.randoms(use_true_random=True)
Limits = Mapping[tuple[str, str], tuple[int | None, int | None]]
"""By DAG and task: how many may be active in the DAG, and in each run."""


def waiting(run: int, index: int = 0, *, slots: int = 1) -> WaitingTask:
    return WaitingTask(run, index, "d", f"t{index}", TaskState.SCHEDULED, 0, slots)


def queue(heavy: int, light: int, *, slots: int = 100, admitted: int = 0) -> AdmissionState:
    """`heavy` tasks of run 1 come first by weight, and `light` ones of run 2 have waited long."""
    first = tuple(waiting(1, index) for index in range(heavy))
    old = tuple(waiting(2, index) for index in range(light))
    runs = {id_: run_view(id_, state=RunState.RUNNING, max_active_tasks=999) for id_ in (1, 2)}
    return AdmissionState(
        NOW,
        PoolView(name="p", open=slots, admitted=admitted),
        (*first, *old)[:slots],
        old,
        runs=runs,
    )


@pytest.mark.parametrize(
    ("state", "order"),
    [
        pytest.param(queue(8, 2), "1112111211", id="every fourth one waited longest"),
        pytest.param(queue(8, 0), "11111111", id="no task starves"),
        pytest.param(queue(2, 3), "11222", id="the rest goes to them too"),
        pytest.param(queue(0, 3), "222", id="they alone wait"),
        pytest.param(queue(8, 2, slots=3), "111", id="too few slots for a fourth"),
        pytest.param(queue(8, 2, slots=3, admitted=2), "121", id="slots are counted on from one time to the next"),
        pytest.param(queue(8, 2, slots=1, admitted=3), "2", id="one slot at a time"),
    ],
)
def test_every_fourth_admission_is_the_task_that_waited_longest(state: AdmissionState, order: str) -> None:
    assert "".join(str(task.dag_run_id) for task in select_tasks(Capacity(state))) == order


def long_waiting(*slots: int, open_: int) -> AdmissionState:
    """The next admission is a starving task; the starving ones wait for `slots` each, the others for one slot each."""
    first = tuple(waiting(1, index) for index in range(2))
    old = tuple(waiting(2, index, slots=number) for index, number in enumerate(slots))
    runs = {id_: run_view(id_, state=RunState.RUNNING, max_active_tasks=999) for id_ in (1, 2)}
    return AdmissionState(NOW, PoolView(name="p", open=open_, slots=4, admitted=FAIR_EVERY - 1), first, old, runs=runs)


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        pytest.param(long_waiting(3, open_=2), [], id="free slots are kept until there are enough"),
        pytest.param(long_waiting(3, open_=3), [(2, 0)], id="then it gets them"),
        pytest.param(long_waiting(3, 1, open_=2), [], id="the next one does not overtake it"),
        pytest.param(long_waiting(9, open_=2), [(1, 0), (1, 1)], id="nothing is kept for more than the pool has"),
        pytest.param(long_waiting(9, 1, open_=2), [(2, 1), (1, 0)], id="nor does that hold up the next one"),
    ],
)
def test_free_slots_are_reserved_for_the_task_that_waited_longest(state: AdmissionState, keys: list[tuple[int, int]]) -> None:
    assert [task.key for task in select_tasks(Capacity(state))] == keys


def test_free_slots_are_reserved_only_at_every_fourth_admission() -> None:
    state = long_waiting(3, open_=2)
    state = msgspec.structs.replace(state, pool=msgspec.structs.replace(state.pool, admitted=0))

    assert [task.key for task in select_tasks(Capacity(state))] == [(1, 0), (1, 1)]


def test_a_task_in_both_lists_gets_one_slot() -> None:
    state = queue(0, 2, slots=9)
    state = msgspec.structs.replace(state, waiting=state.starving[::-1])

    assert sorted(task.key for task in select_tasks(Capacity(state))) == [(2, 0), (2, 1)]


def state_of(chance: Random) -> AdmissionState:
    """Any tasks of any runs with any limits, some of them waiting for long."""
    runs = {
        id_: run_view(
            id_,
            state=chance.choice((RunState.RUNNING, RunState.RUNNING, RunState.SUCCESS)),
            active_tasks=chance.randint(0, 3),
            max_active_tasks=chance.randint(1, 4),
        )
        for id_ in range(1, 4)
    }
    limits = {(dag, task): (chance.choice((None, 1, 2)), chance.choice((None, 1, 2))) for dag in "de" for task in "tu"}
    tasks = [task_of(run, index, limits, chance) for run in runs for index in range(4)]
    active = [(task.dag_id, task.dag_run_id, task.task_id) for task in tasks if chance.random() < 0.2]
    pool = PoolView(
        name="p",
        open=chance.choice((None, *range(-2, 9))),
        parallel=chance.choice((None, *range(9))),
        admitted=chance.randint(0, 9),
    )
    listed, starving = (tuple(chance.sample(tasks, chance.randint(0, len(tasks)))) for _ in range(2))
    return AdmissionState(NOW, pool, listed, starving, tuple(active), runs)


def task_of(run: int, index: int, limits: Limits, chance: Random) -> WaitingTask:
    """Several tasks of a run have one name, so that limits for each run can be reached."""
    dag_id, task_id = "de"[run % 2], "tutu"[index]
    state = chance.choice((TaskState.SCHEDULED, TaskState.SCHEDULED, TaskState.QUEUED))
    return WaitingTask(run, index, dag_id, task_id, state, 0, chance.randint(1, 3), *limits[dag_id, task_id])


@settings(max_examples=400, deadline=None)
@given(chance=CHANCES)
def test_no_limit_is_ever_exceeded(chance: Random) -> None:
    state = state_of(chance)

    given_ = list(select_tasks(Capacity(state)))

    pool, keys = state.pool, [task.key for task in given_]
    assert len(keys) == len(set(keys))
    assert not given_ or pool.open is None or sum(task.pool_slots for task in given_) <= pool.open
    assert not given_ or pool.parallel is None or len(given_) <= pool.parallel
    for run in state.runs.values():
        of_run = sum(task.dag_run_id == run.id for task in given_)
        assert not of_run or (run.state is RunState.RUNNING and run.active_tasks + of_run <= run.max_active_tasks)
    in_dag = Counter((dag, task) for dag, _, task in state.limited) + Counter((t.dag_id, t.task_id) for t in given_)
    in_run = Counter((run, task) for _, run, task in state.limited) + Counter((t.dag_run_id, t.task_id) for t in given_)
    for task in given_:
        assert task.state is TaskState.SCHEDULED
        assert task.per_dag is None or in_dag[task.dag_id, task.task_id] <= task.per_dag
        assert task.per_run is None or in_run[task.dag_run_id, task.task_id] <= task.per_run


@settings(max_examples=400, deadline=None)
@given(chance=CHANCES)
def test_no_task_that_fits_is_left_without_a_slot(chance: Random) -> None:
    state = state_of(chance)
    capacity = Capacity(state)

    for _ in select_tasks(capacity):
        pass

    assert [task for task in state.waiting if capacity.fits(task)] == []


@settings(max_examples=200, deadline=None)
@given(heavy=st.integers(1, 30), slots=st.integers(1, 5))
def test_a_starving_task_gets_a_slot_within_a_bound(heavy: int, slots: int) -> None:
    admitted, rounds = 0, 0
    while rounds := rounds + 1:
        chosen = list(select_tasks(Capacity(queue(heavy + 5, 1, slots=slots, admitted=admitted))))
        if any(task.dag_run_id == 2 for task in chosen):
            break
        admitted += len(chosen)

    assert admitted < FAIR_EVERY
