"""What blocks a task that waits for slots."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, run_view
from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.schemas.explain import reasons
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PoolView, WaitingTask

TASK = WaitingTask(1, 0, "d", "t", TaskState.SCHEDULED, 0, pool_slots=2, per_dag=2, per_run=1)
POOL = PoolView(name="p", open=3, slots=4, parallel=5, parallelism=9)


def around(task: dict[str, Any] | None = None, run: dict[str, Any] | None = None, **facts: Any) -> AdmissionState:
    """A task that may go, but for the facts given; those called `pool_…` are of the pool."""
    pool = {name.removeprefix("pool_"): fact for name, fact in facts.items() if name.startswith("pool_")}
    return AdmissionState(
        NOW,
        msgspec.structs.replace(POOL, **pool),
        (msgspec.structs.replace(TASK, **(task or {})),),
        limited=facts.get("limited", ()),
        runs={1: run_view(1, **{"state": RunState.RUNNING, "max_active_tasks": 2, **(run or {})})},
    )


CASES = [
    pytest.param(around(), (), id="nothing holds it up"),
    pytest.param(around({"is_paused": True}), (reasons.DagPaused(),), id="pause"),
    pytest.param(around({"is_attempted": True}), (reasons.AttemptOpen(),), id="an attempt that has not ended"),
    pytest.param(around(run={"active_tasks": 2}), (reasons.MaxActiveTasks(2),), id="max_active_tasks"),
    pytest.param(around(limited=(("d", 1, "t"),)), (reasons.MaxActiveTisPerDagrun(1),), id="max_active_tis_per_dagrun"),
    pytest.param(around(limited=(("d", 2, "t"), ("d", 3, "t"))), (reasons.MaxActiveTisPerDag(2),), id="max_active_tis_per_dag"),
    pytest.param(around(pool_parallel=0), (reasons.Parallelism(9),), id="parallelism"),
    pytest.param(around(pool_exists=False, pool_open=0), (reasons.PoolMissing("p"),), id="no such pool"),
    pytest.param(around(pool_slots=1, pool_open=1), (reasons.PoolTooSmall("p", 1, 2),), id="the pool is too small"),
    pytest.param(around(pool_open=1), (reasons.PoolFull("p", 4, 1, 2),), id="too few slots are free"),
    pytest.param(around(pool_open=None, pool_slots=None, pool_parallel=None), (), id="any number of slots"),
    pytest.param(
        around({"is_paused": True}, {"active_tasks": 2}, pool_open=0),
        (reasons.DagPaused(), reasons.MaxActiveTasks(2), reasons.PoolFull("p", 4, 0, 2)),
        id="several at once",
    ),
]


@pytest.mark.parametrize(("state", "blocks"), CASES)
def test_every_blocker_of_a_task_is_named(state: AdmissionState, blocks: tuple[object, ...]) -> None:
    (task,) = state.waiting

    assert Capacity(state).blockers(task) == blocks


@pytest.mark.parametrize(("state", "blocks"), CASES)
def test_a_task_without_blockers_gets_its_slots(state: AdmissionState, blocks: tuple[object, ...]) -> None:
    assert bool(list(select_tasks(Capacity(state)))) is not bool(blocks)
