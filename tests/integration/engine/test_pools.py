"""Who gets a slot, on a real Postgres (SEMANTICS 9.5): the order, the limits, and that nothing holds up what is behind it."""

from typing import Any

import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.engine import Work
from tidegate.schemas.dag import CommandTask, DagSpec
from tidegate.schemas.message import PauseRequested, RunRequested, TasksReady
from tidegate.schemas.queries import pools
from tidegate.schemas.timetable import Cron


def command(task_id: str, *upstream: str, **facts: Any) -> CommandTask:
    return CommandTask(task_id=task_id, upstream=upstream, argv=("true",), **facts)


async def waiting(world: World, *specs: DagSpec, runs: int = 1) -> None:
    await world.file(*specs)
    for number in range(1, runs + 1):
        for spec in specs:
            date = utc(2024, 4, number)
            await world.tell(RunRequested(dag_id=spec.dag_id, run_id=f"r{number}", conf={}, logical_date=date))


def dag(dag_id: str, *tasks: CommandTask, **facts: Any) -> DagSpec:
    return DagSpec(dag_id=dag_id, tasks=tasks, **facts)


async def pool(world: World, name: str, slots: int) -> None:
    sql = "INSERT INTO pool (name, slots) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET slots = excluded.slots"
    await world.rows(sql, name, slots)


async def admitted(world: World) -> list[str]:
    """What has a slot, by DAG and task."""
    sql = """
        SELECT run.dag_id || '.' || task.task_id FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
        WHERE task.state IN ('queued', 'running') ORDER BY 1
    """
    return [row[0] for row in await world.rows(sql)]


async def test_p01_each_pool_gives_what_it_has(world: World) -> None:
    await pool(world, "a", 1)
    await pool(world, "b", 100)
    tasks = [command(f"a{n}", pool="a") for n in range(2)] + [command(f"b{n}", pool="b") for n in range(2)]
    await waiting(world, dag("d", *tasks))

    await world.admit()

    assert await admitted(world) == ["d.a0", "d.b0", "d.b1"]


async def test_p03_of_equal_weight_the_run_of_the_earlier_date_goes_first(world: World) -> None:
    await pool(world, "default_pool", 1)
    await world.file(dag("d", command("t")))
    for day in (3, 1, 2):
        await world.tell(RunRequested(dag_id="d", run_id=f"day {day}", conf={}, logical_date=utc(2024, 4, day)))

    order = []
    for _ in range(3):
        await world.admit()
        await world.submit()
        sql = "SELECT run_id FROM dag_run AS run JOIN task_instance AS t ON t.dag_run_id = run.id WHERE t.state = 'running'"
        order += [row[0] for row in await world.rows(sql)]
        await world.finish((await world.attempts())[0])

    assert order == ["day 1", "day 2", "day 3"]


async def test_p04_p05_the_heavier_goes_first_whatever_its_dag_and_however_new_its_run(world: World) -> None:
    await pool(world, "default_pool", 1)
    await waiting(world, dag("old", command("t", weight=2)))
    await waiting(world, dag("new", command("t", weight=3)))

    await world.admit()

    assert await admitted(world) == ["new.t"]


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


async def test_p15_what_its_own_limit_holds_up_holds_up_nobody_behind_it(world: World) -> None:
    await pool(world, "default_pool", 8)
    heavy = dag("heavy", *(command(f"t{n:03}", weight=9) for n in range(300)), max_active_tasks=2)
    await waiting(world, heavy, dag("light", *(command(f"t{n}") for n in range(4))))

    await world.admit()
    await world.admit()

    assert await admitted(world) == ["heavy.t000", "heavy.t001", "light.t0", "light.t1", "light.t2", "light.t3"]


async def test_p15_what_needs_more_slots_than_are_free_holds_up_nobody_behind_it(world: World) -> None:
    await pool(world, "default_pool", 3)
    large = (command(f"large{n}", weight=9, pool_slots=2) for n in range(4))
    await waiting(world, dag("d", *large, *(command(f"small{n}") for n in range(2))))

    await world.admit()
    await world.admit()

    assert await admitted(world) == ["d.large0", "d.small0"]


async def test_p10_p15_what_needs_more_slots_than_there_are_holds_up_nobody_behind_it(world: World) -> None:
    await pool(world, "default_pool", 1)
    await waiting(world, dag("d", command("huge", weight=9, pool_slots=2), command("small")))

    await world.admit()

    assert await admitted(world) == ["d.small"]


@pytest.mark.parametrize("limit", ["max_active_per_dag", "max_active_per_run"])
async def test_p15_a_task_that_its_own_limit_holds_up_holds_up_nobody_behind_it(world: World, limit: str) -> None:
    """Its run has room, and there is one slot."""
    await pool(world, "default_pool", 2)
    few = command("few", "list", weight=9, over="list", **{limit: 1})
    await waiting(world, dag("d", command("list"), few), dag("light", command("t")))
    await world.tell(PauseRequested(dag_id="light", is_paused=True))
    await world.work(result=[1, 2, 3])
    await world.tell(PauseRequested(dag_id="light", is_paused=False))
    await world.admit()

    await world.admit()

    assert await admitted(world) == ["d.few", "light.t"]


@pytest.mark.parametrize(
    ("slots", "tasks", "again"),
    [
        pytest.param(3, [command("a"), command("b")], False, id="nobody is left"),
        pytest.param(2, [command("a"), command("b"), command("c")], False, id="no slot is left"),
        pytest.param(
            3,
            [*(command(f"a{n}", weight=9, pool_slots=2) for n in range(3)), command("b")],
            True,
            id="a slot is left, and somebody who was not looked at",
        ),
    ],
)
async def test_a_pool_is_looked_at_again_while_there_is_room_and_somebody_waits(
    world: World, slots: int, tasks: list[CommandTask], again: bool
) -> None:
    await pool(world, "default_pool", slots)
    await waiting(world, dag("d", *tasks))

    applied = await world.tell(TasksReady(pool="default_pool", limit=1000))

    assert bool(applied.work & Work.ADMIT) == again


async def test_a_paused_dag_gets_no_slot_and_holds_up_nobody(world: World) -> None:
    await pool(world, "default_pool", 2)
    await waiting(world, dag("paused", *(command(f"t{n}", weight=9) for n in range(9))), dag("other", command("t")))
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))

    await world.admit()

    assert await admitted(world) == ["other.t"]


async def test_p16_two_dags_share_a_pool_of_one_slot(world: World) -> None:
    await pool(world, "default_pool", 1)
    await waiting(world, dag("a", command("t")), dag("b", command("t")), runs=2)

    for _ in range(4):
        await world.work()

    assert await world.runs("a") == await world.runs("b") == [("r1", "success"), ("r2", "success")]


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


async def test_who_waits_for_long_gets_every_fourth_slot(world: World) -> None:
    await pool(world, "default_pool", 1)
    await waiting(world, dag("light", *(command(f"t{n}") for n in range(3))))
    await waiting(world, dag("heavy", *(command(f"t{n:02}", weight=9) for n in range(12))))
    await world.wait(seconds=61)

    order = []
    for _ in range(12):
        await world.admit(fair_after_s=60.0)
        order += [each.partition(".")[0] for each in await admitted(world)]
        await world.submit()
        await world.finish((await world.attempts())[0])

    assert order == ["heavy", "heavy", "heavy", "light"] * 3


async def test_p16_a_full_pool_keeps_no_dag_from_getting_its_runs(world: World) -> None:
    await pool(world, "default_pool", 1)
    hourly = Cron(("0 * * * *",))
    await world.file(*(dag(name, command("t"), timetable=hourly, start_date=utc(2024, 5, 1, 9)) for name in "ab"))

    for hour in (13, 14, 15):
        await world.go_to(utc(2024, 5, 1, hour))
        await world.admit()

    assert [len(await world.runs(name)) for name in "ab"] == [4, 4]
    assert len(await admitted(world)) == 1


async def test_p21_the_tasks_of_a_dag_that_is_gone_end_with_the_version_they_began_with(world: World) -> None:
    await waiting(world, dag("gone", command("first"), command("then", "first")), dag("other", command("t")))
    await world.file(dag("other", command("t")))

    for _ in range(2):
        await world.work()

    assert await world.rows("SELECT dag_id, is_stale FROM dag ORDER BY dag_id") == [("gone", True), ("other", False)]
    assert [await world.runs(name) for name in ("gone", "other")] == [[("r1", "success")]] * 2


async def test_slots_are_kept_for_who_waits_for_several(world: World) -> None:
    """Those before it take one slot each and never leave two."""
    await pool(world, "default_pool", 2)
    await waiting(world, dag("light", command("large", pool_slots=2)))
    await waiting(world, dag("heavy", *(command(f"t{n:02}", weight=9) for n in range(12))))
    await world.wait(seconds=61)

    order = []
    for _ in range(8):
        await world.admit(fair_after_s=60.0)
        order.append([each.partition(".")[0] for each in await admitted(world)])
        await world.submit()
        await world.finish((await world.attempts())[0])

    assert order[:5] == [["heavy"] * 2, ["heavy"] * 2, ["heavy"], ["light"], ["heavy"] * 2]


async def test_pools_are_in_the_order_of_who_has_waited_longest_in_them(world: World) -> None:
    await pool(world, "a", 10)
    await pool(world, "b", 10)
    await waiting(world, dag("first", command("t", pool="b")))
    await world.wait(seconds=1)
    await waiting(world, dag("second", command("t", pool="a"), command("u", pool="b")))

    assert await world.database.run(pools.in_demand) == ["b", "a"]
