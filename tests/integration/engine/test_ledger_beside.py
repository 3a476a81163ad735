"""Months of the ledger come and go beside other work: no transaction waits long, a killed daemon leaves all as it was."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import uuid4

import anyio
import asyncpg
import pytest

from tests.integration.engine.ledger_months import AUGUST, DAYS, look, partitions, sizes
from tests.integration.engine.world import World, utc
from tests.shapes import spec
from tests.waiting import until
from tidegate.daemon.duties import ledger
from tidegate.daemon.duties.ledger import begin_month, maintain_ledger, retire
from tidegate.daemon.postgres.database import connect
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.queries import ledger as queries
from tidegate.schemas.queries.db import Db

A, B = DatasetRef("s://a"), DatasetRef("s://b")


@pytest.fixture(autouse=True)
async def in_may(world: World) -> None:
    """The ledger's first month has begun, and what was before is gone: there was nothing in it."""
    await maintain_ledger(world.database, DAYS)


async def test_several_daemons_drop_a_month_once(world: World, dsn: str) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    await world.updated("s://a")
    world.clock.at = AUGUST

    async with connect(dsn) as other, anyio.create_task_group() as tg:
        elsewhere = World(other, world.at)
        for each in (world, elsewhere, world, elsewhere):
            tg.start_soon(maintain_ledger, each.database, DAYS)

    assert await world.rows("SELECT month, state::text FROM ledger_month ORDER BY month") == [
        (0, "dropped"),
        (2405, "thinned"),
        (2408, "whole"),
    ]
    assert await look(world) == (1, 1, 0)


async def test_a_long_read_of_the_ledger_keeps_a_month_from_going_and_events_do_not_wait(
    world: World, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.updated("s://a")
    world.clock.at = AUGUST
    await begin_month(world.database)
    monkeypatch.setattr(ledger, "PAUSE_S", 0.01)

    reader = await asyncpg.connect(dsn)
    async with reader.transaction():
        await reader.fetch("SELECT FROM dataset_event")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tg:
                tg.start_soon(retire, world.database, DAYS)
                for _ in range(20):
                    await world.updated("s://b")  # waits as long as the month waits for the reader
    await reader.close()
    before = await partitions(world)
    await retire(world.database, DAYS)
    ((function,),) = await world.rows("SELECT pg_get_functiondef('retire_ledger_month'::regproc)")

    assert re.findall(r"'lock_timeout', '(\w+)'", function.partition("IN ACCESS EXCLUSIVE MODE")[0])[-1] == "100ms"
    assert before == ["dataset_event_2405", "dataset_event_2408"]
    assert await partitions(world) == ["dataset_event_2408"]


async def test_a_decision_about_an_old_event_and_its_being_kept_wait_for_each_other(world: World, dsn: str) -> None:
    """The run that takes it is not committed when the month is to go: it is waited for, and its outcome is not lost."""
    await world.file(spec("t", schedule=AllOf((A, B))))
    await world.updated("s://a")
    world.clock.at = AUGUST
    await begin_month(world.database)
    taken, commit = anyio.Event(), anyio.Event()

    async with connect(dsn) as other, anyio.create_task_group() as tg:
        tg.start_soon(slowly, World(other, world.at), taken, commit)
        await taken.wait()
        tg.start_soon(retire, world.database, DAYS)
        await anyio.sleep(0.3)
        commit.set()

    assert await world.outcomes() == {"consumed": 2}
    assert await sizes(world) == [2, 2, 0, 2]
    assert (await look(world))[2] == 0


async def slowly(world: World, taken: anyio.Event, commit: anyio.Event) -> None:
    """An event completes the condition in a transaction that takes its time."""
    run = world.database.run_for_many

    async def held(work: Callable[..., Awaitable[object]], *args: object) -> object:
        async def then_wait(db: Db) -> object:
            result = await work(db, *args)
            taken.set()
            await commit.wait()
            return result

        return await run(then_wait)

    world.database.run_for_many = held  # type: ignore[method-assign,assignment]  # the real one, and a pause
    await world.updated("s://b")


@pytest.mark.parametrize("waiting", [0, 1])
async def test_a_daemon_that_is_killed_while_a_month_goes_leaves_all_of_it(world: World, dsn: str, waiting: int) -> None:
    """All is done, the old tables are dropped and the new ones in their place, but it is not committed."""
    await world.file(spec("t!", schedule=AllOf((A, B))))
    for uri in ["s://a", "s://c"][1 - waiting :]:
        await world.updated(uri)
    world.clock.at = AUGUST
    await begin_month(world.database)
    before = await sizes(world)

    killed = await asyncpg.connect(dsn)
    pid = killed.get_server_pid()
    await killed.execute("BEGIN")
    retired = await killed.fetch("SELECT * FROM retire_ledger_month(2405, 2406, $1, 10)", AUGUST - timedelta(days=DAYS))
    killed.terminate()
    await until_alone(world, pid)
    after = await sizes(world)
    await retire(world.database, DAYS)

    assert [tuple(row) for row in retired] == [("thinned" if waiting else "dropped", waiting)]
    assert after == before
    assert await sizes(world) == [waiting, waiting, 0, 0]
    assert (await look(world))[2] == 0


async def until_alone(world: World, pid: int) -> None:
    async def is_alone() -> bool:
        return not await world.rows("SELECT FROM pg_stat_activity WHERE pid = $1", pid)

    await until(is_alone, 60)


async def test_events_of_a_month_that_goes_on_are_never_dropped(world: World) -> None:
    await world.updated("s://a")

    retired = await world.database.run(queries.retire, month=2405, cutoff=utc(2030, 1, 1), most=10)

    assert retired is None
    assert (await sizes(world))[0] == 1


async def test_a_role_that_does_not_own_the_ledger_goes_on_without_months(world: World, dsn: str) -> None:
    role = f"guest_{uuid4().hex}"
    await world.rows(f"CREATE ROLE {role}")
    await world.rows(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    await world.rows(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
    world.clock.at = AUGUST

    async with connect(f"{dsn}?options=-crole%3D{role}") as other:
        guest = World(other, world.at)
        await maintain_ledger(guest.database, DAYS)
        await guest.updated("s://a")

    assert (await sizes(world))[0] == 1
    await world.rows(f"DROP OWNED BY {role}")
    await world.rows(f"DROP ROLE {role}")
