"""What blocks a task that waits for slots."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, run_view
from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.schemas.backfill import BackfillRoom
from tidegate.schemas.explain import reasons
from tidegate.schemas.state import BackfillState, RunState, TaskState
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
        backfills=facts.get("backfills", {}),
    )


def of_backfill(*, tasks: int | None = None, active: int = 0, share: int | None = None, occupied: int = 0) -> AdmissionState:
    """As `around`, of backfill 3 with these limits."""
    room = BackfillRoom(3, BackfillState.RUNNING, 10, tasks, active, share, occupied)
    return around({"backfill_id": 3}, backfills={3: room})


CASES = [
    pytest.param(around(), (), id="nothing holds it up"),
    pytest.param(around({"is_paused": True}), (reasons.DagPaused(),), id="pause"),
    pytest.param(around({"is_attempted": True}), (reasons.AttemptOpen(),), id="an attempt that has not ended"),
    pytest.param(around(run={"active_tasks": 2}), (reasons.MaxActiveTasks(2),), id="max_active_tasks"),
    pytest.param(around(limited=(("d", 1, "t"),)), (reasons.MaxActiveTisPerDagrun(1),), id="max_active_tis_per_dagrun"),
    pytest.param(around(limited=(("d", 2, "t"), ("d", 3, "t"))), (reasons.MaxActiveTisPerDag(2),), id="max_active_tis_per_dag"),
    pytest.param(of_backfill(), (), id="a backfill without limits"),
    pytest.param(around({"backfill_id": 3}), (), id="a backfill that was read for another pool"),
    pytest.param(of_backfill(tasks=2, active=1, share=4, occupied=2), (), id="a backfill with room"),
    pytest.param(of_backfill(tasks=2, active=2), (reasons.BackfillLimit(3, "max_active_tasks", 2),), id="tasks of a backfill"),
    pytest.param(of_backfill(share=3, occupied=2), (reasons.BackfillLimit(3, "share", 3),), id="share of a backfill"),
    pytest.param(of_backfill(share=1), (), id="a task that needs more than the share, alone"),
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


def test_what_is_admitted_counts_for_its_backfill() -> None:
    state = of_backfill(tasks=1, share=9)
    capacity = Capacity(state)
    (task,) = state.waiting

    capacity.admit(task)

    assert reasons.BackfillLimit(3, "max_active_tasks", 1) in capacity.blockers(task)
    assert capacity.slots_of_backfill[3] == 2
