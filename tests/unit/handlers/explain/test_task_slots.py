"""The gates of a task instance that waits for slots, and the changes that open them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.gates import gate_of, opened, shut
from tests.unit.handlers.task_facts import ATTEMPT, BEFORE, SCHEDULED, closed, task_facts
from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.facts import OccupyingTask
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.state import BackfillState, RunState
from tidegate.schemas.view import PoolView, WaitingTask

POOL = PoolView(name="default_pool", open=3, slots=4)
OTHER = OccupyingTask("e", "x", "t", 1, BEFORE)
MINE = OccupyingTask("d", "r1", "b", 1, BEFORE)


def waiting(
    task: Mapping[str, Any] | None = None, run: Mapping[str, Any] | None = None, *others: WaitingTask, **facts: Any
) -> TaskFacts:
    """A task that waits for slots after others; facts called `pool_…` are of its pool."""
    pool = {name.removeprefix("pool_"): facts.pop(name) for name in list(facts) if name.startswith("pool_")}
    mine = msgspec.structs.replace(WaitingTask(1, 0, "d", "a", SCHEDULED, 0), **(task or {}))
    limited, backfill, starving = facts.pop("limited", ()), facts.pop("backfill", None), facts.pop("starving", ())
    spec = TASK if mine.per_dag is None and mine.per_run is None else LIMITED
    base = task_facts(graph(spec), SCHEDULED, run=run, **facts)
    of_others = {each.dag_run_id for each in (*others, *starving)}
    runs = {id_: run_view(id_, state=RunState.RUNNING, max_active_tasks=99) for id_ in of_others}
    view = msgspec.structs.replace(POOL, **pool)
    state = AdmissionState(
        NOW,
        view,
        waiting=(*others, mine),
        starving=starving,
        limited=limited,
        runs={**runs, 1: base.run.view},
        backfills={3: backfill} if backfill else {},
    )
    return msgspec.structs.replace(base, admission=state)


TASK: TaskSpec = task("a")
LIMITED: TaskSpec = task("a", max_active_per_dag=2, max_active_per_run=1)


def before(run: int, slots: int = 1) -> WaitingTask:
    """A task ahead in the queue."""
    return WaitingTask(run, 0, "e", "t", SCHEDULED, 0, slots)


def mine(index: int) -> WaitingTask:
    """A task ahead of it of the same run."""
    return WaitingTask(1, index, "d", f"t{index}", SCHEDULED, 0)


GATES = [
    pytest.param(
        waiting({"pool_slots": 2}, pool_open=1, occupied=3, in_pool=(OTHER,)),
        {"pool": reasons.PoolFull("default_pool", 4, 1, 2)},
        (remedy.SetSlots("default_pool", 5, ("e x t",)),),
        id="pool",
    ),
    pytest.param(
        waiting(pool_open=0, pool_slots=None, pool_exists=False),
        {"pool": reasons.PoolMissing("default_pool")},
        (remedy.SetSlots("default_pool", 1),),
        id="no such pool",
    ),
    pytest.param(
        waiting({"pool_slots": 9}),
        {"pool": reasons.PoolTooSmall("default_pool", 4, 9)},
        (remedy.SetSlots("default_pool", 9),),
        id="too small a pool",
    ),
    pytest.param(
        waiting(None, None, before(2), before(3, 2), pool_open=1, occupied=3),
        {"priority": reasons.LowerPriority("default_pool", 1)},
        (remedy.SetSlots("default_pool", 5),),
        id="priority",
    ),
    pytest.param(
        waiting(None, None, before(2, 3), occupied=1),
        {"priority": reasons.LowerPriority("default_pool", 1)},
        (remedy.SetSlots("default_pool", 5),),
        id="one that needs all open slots is ahead",
    ),
    pytest.param(
        waiting({"pool_slots": 2}, None, before(2, 3), occupied=1),
        {"priority": reasons.LowerPriority("default_pool", 1)},
        (remedy.SetSlots("default_pool", 6),),
        id="one slot more than the pool has is too few",
    ),
    pytest.param(
        waiting({"pool_slots": 3}, None, before(2, 3), before(3, 1), occupied=1),
        {"priority": reasons.LowerPriority("default_pool", 1)},
        (remedy.SetSlots("default_pool", 8),),
        id="all that are ahead get their slots",
    ),
    pytest.param(
        waiting(pool_open=0, occupied=4, pool_admitted=3, starving=(before(2, 9),)),
        {"pool": reasons.PoolFull("default_pool", 4, 0, 1)},
        (remedy.SetSlots("default_pool", 5),),
        id="the pool keeps no slots for a starving task that is too large for it",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, in_run=(MINE,)),
        {"max_active_tasks": reasons.MaxActiveTasks(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="max_active_tasks",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=0, occupied=4, in_run=(MINE,), in_pool=(MINE, OTHER)),
        {"pool": reasons.PoolFull("default_pool", 4, 0, 1), "max_active_tasks": reasons.MaxActiveTasks(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="a task that has to end frees its slots",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=0, occupied=4, in_run=(MINE,), in_pool=(OTHER,)),
        {"pool": reasons.PoolFull("default_pool", 4, 0, 1), "max_active_tasks": reasons.MaxActiveTasks(16)},
        (
            remedy.SetSlots("default_pool", 5, ("e x t",)),
            remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),
        ),
        id="a limit and a pool",
    ),
    pytest.param(
        waiting({"pool_slots": 2}, {"active_tasks": 16}, pool_open=0, occupied=4, in_run=(MINE,), in_pool=(MINE, OTHER)),
        {"pool": reasons.PoolFull("default_pool", 4, 0, 2), "max_active_tasks": reasons.MaxActiveTasks(16)},
        (
            remedy.SetSlots("default_pool", 6, ("d r1 b", "e x t")),
            remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),
        ),
        id="a task that has to end frees too few slots",
    ),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=0, pool_slots=0, occupied=1, in_run=(MINE,), in_pool=(MINE,)),
        {"pool": reasons.PoolTooSmall("default_pool", 0, 1), "max_active_tasks": reasons.MaxActiveTasks(16)},
        (
            remedy.SetSlots("default_pool", 2, ("d r1 b",)),
            remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),
        ),
        id="a task that has to end frees a slot that the pool has no longer",
    ),
    pytest.param(
        waiting({"per_run": 1}, limited=(("d", 1, "a"),), of_task=(MINE, msgspec.structs.replace(MINE, run_id="r2"))),
        {"max_active_tis_per_dagrun": reasons.MaxActiveTisPerDagrun(1)},
        (remedy.EndTasks("max_active_tis_per_dagrun", 1, (("d", "r1", "b"),)),),
        id="max_active_tis_per_dagrun",
    ),
    pytest.param(
        waiting({"per_dag": 2}, limited=(("d", 2, "a"),) * 3, of_task=(MINE,)),
        {"max_active_tis_per_dag": reasons.MaxActiveTisPerDag(2)},
        (remedy.EndTasks("max_active_tis_per_dag", 2, (("d", "r1", "b"),)),),
        id="max_active_tis_per_dag",
    ),
    pytest.param(
        waiting({"backfill_id": 3}, {"backfill_id": 3}, backfill=BackfillCapacity(3, BackfillState.RUNNING, 10, 5, 5, None, 5)),
        {"backfill tasks": reasons.BackfillLimit(3, "max_active_tasks", 5)},
        (remedy.SetBackfill(3, "max_active_tasks", 6),),
        id="tasks of a backfill",
    ),
    pytest.param(
        waiting({"backfill_id": 3}, {"backfill_id": 3}, backfill=BackfillCapacity(3, BackfillState.RUNNING, 10, None, 1, 1, 1)),
        {"backfill share": reasons.BackfillLimit(3, "share", 1)},
        (remedy.SetBackfill(3, "share", 100),),
        id="share of a backfill",
    ),
    pytest.param(
        waiting({"backfill_id": 3}, {"backfill_id": 3}, backfill=BackfillCapacity(3, BackfillState.RUNNING, 10, 5, 5, 1, 1)),
        {
            "backfill tasks": reasons.BackfillLimit(3, "max_active_tasks", 5),
            "backfill share": reasons.BackfillLimit(3, "share", 1),
        },
        (remedy.SetBackfill(3, "max_active_tasks", 6), remedy.SetBackfill(3, "share", 100)),
        id="both limits of a backfill",
    ),
    pytest.param(
        waiting(pool_parallel=0, pool_parallelism=6, active=7),
        {"parallelism": reasons.Parallelism(6)},
        (remedy.SetParallelism(8),),
        id="parallelism",
    ),
    pytest.param(
        waiting(pool_parallel=0, pool_parallelism=6, active=6),
        {"parallelism": reasons.Parallelism(6)},
        (remedy.SetParallelism(7),),
        id="parallelism, just reached",
    ),
    pytest.param(
        waiting({"is_attempted": True}, attempt=ATTEMPT),
        {"attempt": reasons.AttemptOpen()},
        (remedy.Wait(None),),
        id="attempt",
    ),
    pytest.param(
        waiting(None, {"max_active_tasks": 2}, mine(1), mine(2), pool_open=128, pool_slots=128),
        {"max_active_tasks": reasons.MaxActiveTasks(2)},
        (remedy.Wait(None),),
        id="tasks ahead reach the limit of the run, and leave slots",
    ),
    pytest.param(
        waiting(None, {"max_active_tasks": 2, "active_tasks": 1}, mine(1), in_run=(MINE,)),
        {"max_active_tasks": reasons.MaxActiveTasks(2)},
        (remedy.Wait(None),),
        id="an active task and one ahead reach the limit of the run",
    ),
    pytest.param(
        waiting(None, {"max_active_tasks": 2}, mine(1), mine(2), pool_open=2),
        {"max_active_tasks": reasons.MaxActiveTasks(2), "priority": reasons.LowerPriority("default_pool", 2)},
        (remedy.Wait(None),),
        id="tasks ahead reach the limit of the run and take all slots: no size of the pool suffices",
    ),
    pytest.param(
        waiting(None, {"max_active_tasks": 2}, mine(1), mine(2), pool_open=2, occupied=2),
        {"max_active_tasks": reasons.MaxActiveTasks(2), "priority": reasons.LowerPriority("default_pool", 2)},
        (remedy.Wait(None),),
        id="the same in a pool whose other slots are taken",
    ),
    pytest.param(
        waiting(None, None, mine(1), pool_open=None, pool_slots=None, pool_parallel=1, pool_parallelism=8, active=7),
        {"parallelism": reasons.Parallelism(8)},
        (remedy.Wait(None),),
        id="a task ahead reaches the parallelism, in a pool without a limit",
    ),
    pytest.param(waiting(pool_open=None, pool_slots=None), {}, (), id="any number of slots"),
    pytest.param(
        waiting(run={"active_tasks": 16}, pool_open=None, pool_slots=None, in_run=(MINE,)),
        {"max_active_tasks": reasons.MaxActiveTasks(16)},
        (remedy.EndTasks("max_active_tasks", 1, (("d", "r1", "b"),)),),
        id="a limit beside any number of slots",
    ),
]


@pytest.mark.parametrize(("around", "gates", "change"), GATES)
def test_a_task_that_waits_for_slots_has_a_reason_and_a_change(
    around: TaskFacts, gates: dict[str, object], change: tuple[remedy.Change, ...]
) -> None:
    page = explain_task(around)

    assert (closed(page), page.change) == (gates, change)


MANY = tuple(before(number) for number in range(2, 6))
MINE_2 = msgspec.structs.replace(MINE, task="c")
FULL = BackfillCapacity(3, BackfillState.RUNNING, 10, 5, 4, 3, 2)
OF_BACKFILL = ({"backfill_id": 3}, {"backfill_id": 3})
ABANDONED = msgspec.structs.replace(ATTEMPT, state="submitting", has_owner=False)


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (
            waiting(occupied=1, in_pool=(OTHER,)),
            opened("pool", BEFORE, pool="default_pool", needed=1, slots=4, taken=1, by=("e x t",)),
        ),
        (
            waiting({"pool_slots": 9}, row=None),
            shut("pool", reasons.PoolTooSmall("default_pool", 4, 9), pool="default_pool", needed=1, slots=4, taken=0),
        ),
        (waiting(), opened("priority", before_it=0)),
        (
            waiting(None, None, *MANY, pool_open=9, pool_slots=9),
            opened("priority", before_it=4, first=("e r2 t", "e r3 t", "e r4 t")),
        ),
        (
            waiting(run={"active_tasks": 2}, in_run=(MINE, MINE_2)),
            opened("max_active_tasks", limit=16, working=2, tasks=("d r1 b", "d r1 c")),
        ),
        (waiting({"per_run": 1}, of_task=(MINE,)), opened("max_active_tis_per_dag", limit=2, tasks=("d r1 b",))),
        (waiting({"per_run": 1}, of_task=(MINE,)), opened("max_active_tis_per_dagrun", limit=1, tasks=("d r1 b",))),
        (waiting(pool_parallelism=6, pool_parallel=1, active=5), opened("parallelism", limit=6, working=5)),
        (waiting(*OF_BACKFILL, backfill=FULL), opened("backfill tasks", limit=5, working=4)),
        (waiting(*OF_BACKFILL, backfill=FULL), opened("backfill share", share=3, occupied=2)),
        (
            waiting({"is_attempted": True}, attempt=ABANDONED),
            shut("attempt", reasons.AttemptOpen(), state="submitting", host="h", daemon="gone", last_sign_of_life=NOW),
        ),
        (waiting({"is_attempted": True}), shut("attempt", reasons.AttemptOpen())),
    ],
)
def test_a_gate_of_the_slots_has_its_facts(around: TaskFacts, expected: Gate[Any]) -> None:
    assert gate_of(explain_task(around), expected.name) == expected
