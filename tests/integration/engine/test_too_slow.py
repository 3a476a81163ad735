"""A transaction that Postgres cannot finish in time is divided, and is an outage only if it is of one message."""

from collections.abc import Sequence

import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.containment import bisect
from tidegate.daemon.engine import Applied
from tidegate.daemon.postgres import database as databases
from tidegate.daemon.postgres.database import Database, connect
from tidegate.schemas.error import TooSlowError, UnavailableError
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import DatasetUpdated

SLOW_ROWS = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END';
CREATE TRIGGER slow BEFORE INSERT ON dataset_event FOR EACH ROW EXECUTE FUNCTION slow()
"""


async def refused(_: Sequence[DatasetUpdated], error: Exception) -> Applied:
    raise error


async def test_a_statement_that_takes_too_long_is_too_slow(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(databases.SERVER_SETTINGS, "statement_timeout", "0.1s")
    async with connect(dsn) as database:
        with pytest.raises(TooSlowError, match="statement timeout"):
            await database.run(Db.execute, "SELECT pg_sleep(5)")


async def test_many_statements_that_take_too_long_together_are_too_slow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "TRANSACTION_S", 0.8)
    monkeypatch.setattr(databases, "STATEMENT_S", 0.4)

    async def work(db: Db) -> None:
        for _ in range(100):
            await db.execute("SELECT pg_sleep(0.1)")

    with pytest.raises(TooSlowError):
        await database.run(work)


async def test_a_server_that_answers_no_more_is_away(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "TRANSACTION_S", 0.8)
    monkeypatch.setattr(databases, "STATEMENT_S", 0.4)

    with pytest.raises(UnavailableError) as caught:
        await database.run(Db.execute, "SELECT pg_sleep(5)")

    assert not isinstance(caught.value, TooSlowError)


async def test_a_batch_that_is_too_slow_is_applied_in_parts(world: World, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.database.pool.execute(SLOW_ROWS)
    monkeypatch.setitem(databases.SERVER_SETTINGS, "statement_timeout", "0.5s")
    async with connect(dsn) as database:
        slow = World(database, utc(2024, 5, 1))
        updates = [DatasetUpdated(uri=f"s://{number}") for number in range(6)]
        await bisect(updates, lambda part: slow.tell(*part), refused)

    assert await world.rows("SELECT count(*) FROM dataset_event") == [(6,)]
