"""The order in which a pool gives out its slots; a task that does not fit blocks no other."""

from typing import Any

import pytest

from tests.integration.engine.slots import admitted, command, dag, pool, waiting
from tests.integration.engine.world import World, utc
from tidegate.schemas.message import PauseRequested, RunRequested
from tidegate.schemas.queries import pools, starving
from tidegate.schemas.queries.db import Db
from tidegate.schemas.timetable.spec import Cron


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


async def test_p15_what_its_own_limit_holds_up_blocks_no_task_behind_it(world: World) -> None:
    await pool(world, "default_pool", 8)
    heavy = dag("heavy", *(command(f"t{n:03}", weight=9) for n in range(300)), max_active_tasks=2)
    await waiting(world, heavy, dag("light", *(command(f"t{n}") for n in range(4))))

    await world.admit()
    await world.admit()

    assert await admitted(world) == ["heavy.t000", "heavy.t001", "light.t0", "light.t1", "light.t2", "light.t3"]


async def test_p15_what_needs_more_slots_than_are_free_blocks_no_task_behind_it(world: World) -> None:
    await pool(world, "default_pool", 3)
    large = (command(f"large{n}", weight=9, pool_slots=2) for n in range(4))
    await waiting(world, dag("d", *large, *(command(f"small{n}") for n in range(2))))

    await world.admit()
    await world.admit()

    assert await admitted(world) == ["d.large0", "d.small0"]


async def test_p10_p15_what_needs_more_slots_than_there_are_blocks_no_task_behind_it(world: World) -> None:
    await pool(world, "default_pool", 1)
    await waiting(world, dag("d", command("huge", weight=9, pool_slots=2), command("small")))

    await world.admit()

    assert await admitted(world) == ["d.small"]


@pytest.mark.parametrize("limit", ["max_active_per_dag", "max_active_per_run"])
async def test_p15_a_task_that_its_own_limit_holds_up_blocks_no_task_behind_it(world: World, limit: str) -> None:
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


async def test_a_paused_dag_gets_no_slot_and_blocks_no_other(world: World) -> None:
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


async def test_a_task_that_waits_for_long_gets_every_fourth_slot(world: World) -> None:
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


async def test_slots_are_kept_for_a_task_that_waits_for_several(world: World) -> None:
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


async def test_pools_are_in_the_order_of_their_longest_waits(world: World) -> None:
    await pool(world, "a", 10)
    await pool(world, "b", 10)
    await waiting(world, dag("first", command("t", pool="b")))
    await world.wait(seconds=1)
    await waiting(world, dag("second", command("t", pool="a"), command("u", pool="b")))

    assert await world.database.run(pools.in_demand) == ["b", "a"]


async def test_instances_of_a_limited_task_that_wait_long_hide_no_task_that_waits_less_long(world: World) -> None:
    """Of them only one may go at a time, however many are looked at."""
    await pool(world, "default_pool", 8)
    await waiting(world, dag("limited", command("t", max_active_per_dag=1), max_active_runs=30), runs=30)
    await world.wait(seconds=1)
    await waiting(world, dag("light", command("t")))
    await world.wait(seconds=60)
    await waiting(world, dag("heavy", *(command(f"t{n}", weight=9) for n in range(9))))

    await world.admit(fair_after_s=30.0)

    assert [each.partition(".")[0] for each in await admitted(world)] == [*["heavy"] * 6, "light", "limited"]


MANY_MORE = """
    INSERT INTO task_instance (dag_run_id, task_index, task_id, state, pool, per_dag, rank, order_at, scheduled_at)
    SELECT dag_run_id, 1048576 + element, task_id, 'scheduled', pool, per_dag, rank, order_at, scheduled_at
    FROM task_instance CROSS JOIN generate_series(0, 999) AS element
"""


@pytest.mark.parametrize("limit", [{}, {"max_active_tasks": 1}, {"max_active_per_dag": 1}], ids=["pause", "run", "task"])
async def test_a_thousand_tasks_that_are_held_back_hide_no_task_that_waits_less_long(world: World, limit: dict[str, Any]) -> None:
    of_task = {name: limit[name] for name in limit if name == "max_active_per_dag"}
    of_dag = {name: limit[name] for name in limit if name == "max_active_tasks"}
    await pool(world, "default_pool", 1)
    await waiting(world, dag("many", command("t", weight=3, **of_task), **of_dag))
    if limit:
        await world.admit()
        await world.submit()
    await world.tell(PauseRequested(dag_id="many", is_paused=not limit))
    await world.rows(MANY_MORE)
    await pool(world, "default_pool", 2 if limit else 1)
    await world.wait(seconds=1)
    await waiting(world, dag("light", command("t")))
    await world.wait(seconds=61)
    await waiting(world, dag("heavy", *(command(f"t{n}", weight=9) for n in range(9))))

    order = []
    for _ in range(4):
        await world.admit(fair_after_s=60.0)
        order += [task.partition(".")[0] for task in await admitted(world) if task != "many.t"]
        await world.submit()
        await world.finish((await world.attempts())[-1])

    assert sorted(order) == ["heavy", "heavy", "heavy", "light"]


async def test_tasks_are_searched_a_second_time_only_if_more_wait_than_were_looked_at(world: World) -> None:
    await waiting(world, dag("many", command("t")))
    await world.tell(PauseRequested(dag_id="many", is_paused=True))

    async def searches(db: Db) -> int:
        before = db.statements
        assert await starving.longest_waiting(db, "default_pool", utc(2100, 1, 1), 9, 1) == []
        return db.statements - before

    few = await world.database.run(searches)
    await world.rows(MANY_MORE)

    assert [few, await world.database.run(searches)] == [1, 2]


@pytest.mark.parametrize("at", ["-infinity", "infinity", "4713-01-01 BC", "294276-12-31Z"])
async def test_a_time_of_a_damaged_row_out_of_the_calendar_holds_up_no_task(world: World, at: str) -> None:
    await waiting(world, dag("bad", command("t")))
    await world.database.pool.execute(f"UPDATE task_instance SET scheduled_at = '{at}'")
    await waiting(world, dag("good", command("t")))

    await world.admit()

    assert "good.t" in await admitted(world)
