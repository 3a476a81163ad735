"""What blocks a task that waits for slots."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, run_view
from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.schemas.backfill import BackfillCapacity
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
    limits = BackfillCapacity(3, BackfillState.RUNNING, 10, tasks, active, share, occupied)
    return around({"backfill_id": 3}, backfills={3: limits})


CASES = [
    pytest.param(around(), (), id="nothing holds it up"),
    pytest.param(around({"is_paused": True}), (reasons.DagPaused(),), id="pause"),
    pytest.param(around({"hold_reason": "why"}), (reasons.DagHeld("why"),), id="hold"),
    pytest.param(around({"is_attempted": True}), (reasons.AttemptOpen(),), id="an attempt that has not ended"),
    pytest.param(around(run={"active_tasks": 2}), (reasons.MaxActiveTasks(2),), id="max_active_tasks"),
    pytest.param(around(limited=(("d", 1, "t"),)), (reasons.MaxActiveTisPerDagrun(1),), id="max_active_tis_per_dagrun"),
    pytest.param(around(limited=(("d", 2, "t"), ("d", 3, "t"))), (reasons.MaxActiveTisPerDag(2),), id="max_active_tis_per_dag"),
    pytest.param(of_backfill(), (), id="a backfill without limits"),
    pytest.param(around({"backfill_id": 3}), (), id="a backfill that was read for another pool"),
    pytest.param(of_backfill(tasks=2, active=1, share=4, occupied=2), (), id="a backfill below its limits"),
    pytest.param(of_backfill(tasks=2, active=2), (reasons.BackfillLimit(3, "max_active_tasks", 2),), id="tasks of a backfill"),
    pytest.param(of_backfill(share=3, occupied=2), (reasons.BackfillLimit(3, "share", 3),), id="share of a backfill"),
    pytest.param(of_backfill(share=1), (), id="a task that needs more than the share, alone"),
    pytest.param(around(pool_parallel=0), (reasons.Parallelism(9),), id="parallelism"),
    pytest.param(around(pool_exists=False, pool_open=0), (reasons.PoolMissing("p"),), id="no such pool"),
    pytest.param(around(pool_slots=1, pool_open=1), (reasons.PoolTooSmall("p", 1, 2),), id="the pool is too small"),
    pytest.param(around(pool_slots=2, pool_open=2), (), id="the pool is just as large"),
    pytest.param(around(pool_open=1), (reasons.PoolFull("p", 4, 1, 2),), id="too few slots are free"),
    pytest.param(around(pool_slots=None, pool_open=1), (reasons.PoolFull("p", 0, 1, 2),), id="too few of a pool of unknown size"),
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


def test_what_is_admitted_counts_for_every_limit() -> None:
    room = BackfillCapacity(3, BackfillState.RUNNING, 10, 9, 4, 90, 8)
    limited = (("d", 1, "t"), ("d", 2, "t"))
    state = around({"backfill_id": 3}, {"active_tasks": 1}, limited=limited, backfills={3: room})
    capacity = Capacity(state)
    (task,) = state.waiting

    capacity.admit(task)

    assert (capacity.active[1], capacity.active_in_run[1, "t"], capacity.active_in_dag["d", "t"]) == (2, 2, 3)
    assert (capacity.of_backfill[3], capacity.slots_of_backfill[3]) == (5, 10)
    assert (capacity.slots, capacity.tasks) == (1, 4)


def of_share(*, occupied: int, starving: str, active_tasks: int = 0) -> AdmissionState:
    """Tasks of backfill 3, which has 4 slots: `big` needs 3 of them, the others one each."""
    sizes = {"old": 1, "big": 3, "new": 1, "live": 1}
    tasks = {
        name: msgspec.structs.replace(
            TASK, task_index=index, pool_slots=size, per_dag=None, per_run=None, backfill_id=None if name == "live" else 3
        )
        for index, (name, size) in enumerate(sizes.items())
    }
    return AdmissionState(
        NOW,
        PoolView(name="p", open=9, slots=9),
        tuple(tasks.values()),
        starving=tuple(tasks[name] for name in starving.split()),
        runs={1: run_view(1, state=RunState.RUNNING, max_active_tasks=9, active_tasks=active_tasks)},
        backfills={3: BackfillCapacity(3, BackfillState.RUNNING, 10, None, 0, 4, occupied)},
    )


@pytest.mark.parametrize(
    ("state", "admitted"),
    [
        pytest.param(of_share(occupied=2, starving=""), [0, 2, 3], id="none starves"),
        pytest.param(of_share(occupied=2, starving="big"), [3], id="others do not take its part of the share"),
        pytest.param(of_share(occupied=2, starving="old big new"), [0, 3], id="one that has waited longer does"),
        pytest.param(of_share(occupied=0, starving="big"), [1, 2, 3], id="it fits, and goes before the others"),
        pytest.param(of_share(occupied=0, starving="new"), [0, 1, 3], id="a small one needs no part"),
        pytest.param(of_share(occupied=2, starving="big", active_tasks=9), [], id="it waits for another limit, too"),
        pytest.param(of_share(occupied=4, starving="live new"), [3], id="one of no backfill"),
    ],
)
def test_the_share_is_kept_for_a_starving_task_that_is_too_large_for_its_rest(state: AdmissionState, admitted: list[int]) -> None:
    assert [task.task_index for task in select_tasks(Capacity(state))] == admitted


def test_others_are_admitted_once_the_share_is_kept_no_longer() -> None:
    capacity = Capacity(of_share(occupied=0, starving="big"))

    assert [task.task_index for task in select_tasks(capacity)] == [1, 2, 3]
    assert (capacity.has_released, capacity.is_left, capacity.kept) == (True, True, {})


@pytest.mark.parametrize(
    ("starving", "admitted"),
    [
        pytest.param("big", [1], id="the share is kept for it"),
        pytest.param("live", [], id="it has a turn, and heavier tasks wait that were not read"),
    ],
)
def test_a_starving_task_that_the_queue_lacks_waits_for_its_turn(starving: str, admitted: list[int]) -> None:
    state = msgspec.structs.replace(of_share(occupied=0, starving=starving), waiting=())

    assert [task.task_index for task in select_tasks(Capacity(state))] == admitted
