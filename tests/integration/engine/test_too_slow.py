"""A transaction that Postgres cannot finish in time is divided, and is an outage only if it is of one message."""

import math
import time
from collections.abc import Sequence

import anyio
import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.containment import bisect
from tidegate.daemon.engine import Applied
from tidegate.daemon.postgres import database as databases
from tidegate.daemon.postgres import deadline
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.schemas.error import TooSlowError, UnavailableError
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import DatasetUpdated

SLOW_ROWS = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(600) WHERE (SELECT count(*) FROM inserted) > 3; RETURN NULL; END';
CREATE TRIGGER slow AFTER INSERT ON dataset_event REFERENCING NEW TABLE AS inserted EXECUTE FUNCTION slow()
"""
"""More than three at a time take too long."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline ends a transaction, however late this process gets to it."""
    monkeypatch.setattr(databases, "LATE_S", 60.0)


async def refused(_: Sequence[DatasetUpdated], error: Exception) -> Applied:
    raise error


async def test_a_statement_that_takes_too_long_is_too_slow(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVER_SETTINGS, "statement_timeout", "0.1s")
    async with connect(dsn) as database:
        with pytest.raises(TooSlowError, match="statement timeout"):
            await database.run(Db.execute, "SELECT pg_sleep(5)")


async def test_many_statements_that_take_too_long_together_are_too_slow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.autocommit(backend)
    monkeypatch.setattr(databases, "TRANSACTION_S", 1.6)
    monkeypatch.setattr(deadline, "STATEMENT_S", 1.6)  # one answer in all of this time is enough, however slow the machine is

    async def work(db: Db) -> None:
        while True:
            await db.execute("SELECT pg_sleep(0.01)")

    with pytest.raises(TooSlowError):
        await database.run(work)


async def test_a_decision_that_occupies_the_process_is_too_slow(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was asked of the server meanwhile, so that it had nothing to answer."""
    await database.autocommit(backend)
    monkeypatch.setattr(databases, "TRANSACTION_S", 0.8)
    for name, value in {"STATEMENT_S": 0.4, "BUSY_S": 0.1}.items():
        monkeypatch.setattr(deadline, name, value)

    async def work(db: Db) -> None:
        await db.execute("SELECT 1")
        time.sleep(1)  # noqa: ASYNC251 - as a decision does
        await db.execute("SELECT pg_sleep(5)")

    with pytest.raises(TooSlowError):
        await database.run(work)


async def test_connections_that_are_all_in_use_are_not_replaced(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connect(dsn, connections=1) as database, anyio.create_task_group() as tg:
        before = await database.autocommit(backend)
        memory = database.memory
        monkeypatch.setattr(databases, "TRANSACTION_S", 0.4)
        holding, refused = anyio.Event(), anyio.Event()

        async def hold() -> None:
            async with database.pool.acquire():
                holding.set()
                await refused.wait()

        tg.start_soon(hold)
        await holding.wait()
        with pytest.raises(UnavailableError, match="all connections to Postgres are in use"):
            await database.run(backend)
        refused.set()
        monkeypatch.undo()
        after = await database.autocommit(backend)

    assert (after, database.memory is memory) == (before, True)


async def backend(db: Db) -> int:
    pid: int = (await db.fetch("SELECT pg_backend_pid()"))[0][0]
    return pid


async def test_a_server_that_answers_no_more_is_away(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await database.autocommit(backend)
    monkeypatch.setattr(databases, "TRANSACTION_S", 2.0)
    for name, value in {"STATEMENT_S": 0.4, "BUSY_S": math.inf}.items():
        monkeypatch.setattr(deadline, name, value)

    with pytest.raises(UnavailableError) as caught:
        await database.run(Db.execute, "SELECT pg_sleep(600)")

    assert not isinstance(caught.value, TooSlowError)


async def test_a_batch_that_is_too_slow_is_applied_in_parts(world: World, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.database.pool.execute(SLOW_ROWS)
    monkeypatch.setitem(SERVER_SETTINGS, "statement_timeout", "2s")
    async with connect(dsn) as database:
        slow = World(database, utc(2024, 5, 1))
        updates = [DatasetUpdated(uri=f"s://{number}") for number in range(6)]
        await bisect(updates, lambda part: slow.tell(*part), refused)

    assert await world.rows("SELECT count(*) FROM dataset_event") == [(6,)]


async def test_the_server_keeps_idle_connections_alive(database: Database) -> None:
    shown = [await database.pool.fetchval(f"SELECT current_setting('tcp_keepalives_{name}')") for name in ("idle", "count")]

    assert shown == ["60", "3"]
