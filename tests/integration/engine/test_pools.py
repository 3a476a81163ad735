"""Who gets a slot, on a real Postgres: the order, the limits, and that nothing holds up what is behind it."""

from typing import Any

import pytest

from tests.integration.engine.slots import admitted, command, dag, pool, waiting
from tests.integration.engine.world import World
from tidegate.daemon.work import Work
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.message import TasksReady


async def test_p01_each_pool_gives_what_it_has(world: World) -> None:
    await pool(world, "a", 1)
    await pool(world, "b", 100)
    tasks = [command(f"a{n}", pool="a") for n in range(2)] + [command(f"b{n}", pool="b") for n in range(2)]
    await waiting(world, dag("d", *tasks))

    await world.admit()

    assert await admitted(world) == ["d.a0", "d.b0", "d.b1"]


async def test_p08_an_over_committed_pool_gives_nothing(world: World) -> None:
    await waiting(world, dag("d", *(command(f"t{n}") for n in range(4))))
    await world.admit()
    await pool(world, "default_pool", 2)
    await waiting(world, dag("e", command("t")))

    await world.admit()

    assert await admitted(world) == ["d.t0", "d.t1", "d.t2", "d.t3"]


async def test_p09_a_task_of_a_pool_that_there_is_not_waits(world: World) -> None:
    await waiting(world, dag("d", command("lost", pool="nowhere"), command("found")))

    await world.admit()

    assert await admitted(world) == ["d.found"]


async def test_p10_a_pool_without_limit_takes_all_and_a_task_larger_than_its_pool_never_runs(world: World) -> None:
    await pool(world, "default_pool", -1)
    await pool(world, "small", 2)
    tasks = [command(f"t{n}") for n in range(12)]
    await waiting(world, dag("d", *tasks, command("huge", pool="small", pool_slots=3), max_active_tasks=100))

    await world.admit()

    assert len(await admitted(world)) == 12


@pytest.mark.parametrize(("active", "more"), [(0, 2), (1, 1), (2, 0)])
async def test_p11_a_run_has_no_more_tasks_at_work_than_it_may(world: World, active: int, more: int) -> None:
    await waiting(world, dag("d", *(command(f"t{n}") for n in range(5)), max_active_tasks=2))
    await pool(world, "default_pool", active)
    await world.admit()
    await pool(world, "default_pool", 100)

    await world.admit()

    assert len(await admitted(world)) == active + more


async def test_p12_a_task_has_no_more_instances_at_work_than_it_may_over_all_runs(world: World) -> None:
    await waiting(world, dag("d", command("few", max_active_per_dag=2), command("many")), runs=4)

    await world.admit()

    assert await admitted(world) == ["d.few"] * 2 + ["d.many"] * 4


@pytest.mark.parametrize(
    ("slots", "tasks", "again"),
    [
        pytest.param(3, [command("a"), command("b")], False, id="no task is left"),
        pytest.param(2, [command("a"), command("b"), command("c")], False, id="no slot is left"),
        pytest.param(
            3,
            [*(command(f"a{n}", weight=9, pool_slots=2) for n in range(3)), command("b")],
            True,
            id="a slot is left, and a task that was not read",
        ),
    ],
)
async def test_a_pool_is_looked_at_again_while_slots_are_free_and_a_task_waits(
    world: World, slots: int, tasks: list[CommandTask], again: bool
) -> None:
    await pool(world, "default_pool", slots)
    await waiting(world, dag("d", *tasks))

    applied = await world.tell(TasksReady(pool="default_pool", limit=1000))

    assert bool(applied.work & Work.ADMIT) == again


@pytest.mark.parametrize(("limits", "count"), [({"limit": 3}, 3), ({"parallelism": 2}, 2), ({"parallelism": 0}, 5)])
async def test_p19_a_pass_admits_no_more_than_it_may_nor_the_installation(world: World, limits: Any, count: int) -> None:
    await waiting(world, dag("d", *(command(f"t{n}") for n in range(5))))

    await world.admit(**limits)

    assert len(await admitted(world)) == count


async def test_p19_the_limit_of_the_installation_is_shared_by_all_pools(world: World) -> None:
    await pool(world, "a", 10)
    await waiting(world, dag("d", command("a1", pool="a"), command("a2", pool="a"), command("b1"), command("b2")))

    await world.admit(parallelism=3)

    assert len(await admitted(world)) == 3


async def test_p21_the_tasks_of_a_dag_that_is_gone_end_with_the_version_they_began_with(world: World) -> None:
    await waiting(world, dag("gone", command("first"), command("then", "first")), dag("other", command("t")))
    await world.file(dag("other", command("t")))

    for _ in range(2):
        await world.work()

    assert await world.rows("SELECT dag_id, is_stale FROM dag ORDER BY dag_id") == [("gone", True), ("other", False)]
    assert [await world.runs(name) for name in ("gone", "other")] == [[("r1", "success")]] * 2
