"""The clock of the server, as daemons carry it on: also over ways that are slow for a while."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random

import anyio
import asyncpg
import pytest

from tests.storms.links import PostgresLink
from tidegate.daemon.postgres import database, server_clock
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db

DRIFT = timedelta(milliseconds=20)
"""More than two clocks of a host drift apart in a minute."""

AN_HOUR_ON = """
CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 h' $$;
SET search_path = public, pg_catalog;
"""


@pytest.fixture
async def link(dsn: str) -> AsyncIterator[PostgresLink]:
    link = PostgresLink("a way", dsn, Random(0))
    async with link.open():
        yield link


@pytest.fixture
async def connection(link: PostgresLink) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(link.dsn)
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_clock, "ASK_CLOCK_EVERY_S", 0.0)


async def true_time(dsn: str) -> datetime:
    connection = await asyncpg.connect(dsn)
    now: datetime = await connection.fetchval("SELECT pg_catalog.clock_timestamp()")
    await connection.close()
    return now


async def test_an_answer_that_was_long_under_way_does_not_shift_the_clock(
    dsn: str, link: PostgresLink, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """Only the question was: the middle between it and its answer is far from when the server looked at its clock."""
    clock, began = ServerClock(), anyio.current_time()
    await clock.now(connection)
    round_trip = timedelta(seconds=anyio.current_time() - began)

    link.delay_s = 1.0
    async with anyio.create_task_group() as tg:
        tg.start_soon(clock.now, connection)
        await anyio.sleep(0.3)
        link.delay_s = 0.0

    before = await true_time(dsn)
    now = clock.extrapolated()

    assert before - round_trip - DRIFT < now <= await true_time(dsn)


async def test_a_question_that_was_long_under_way_does_not_make_the_clock_early(
    dsn: str, link: PostgresLink, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """The first sample has no better one before it. A clock that is early starts runs before they are due."""
    clock = ServerClock()
    link.delay_s = 1.0
    async with anyio.create_task_group() as tg:
        tg.start_soon(clock.now, connection)
        await anyio.sleep(0.5)
        link.delay_s = 0.0

    assert clock.extrapolated() <= await true_time(dsn)


async def test_a_server_whose_clock_was_set_is_believed_however_slow_it_answers(
    dsn: str, link: PostgresLink, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    clock = ServerClock()
    await clock.now(connection)
    await connection.execute(AN_HOUR_ON)

    link.delay_s = 0.2
    now = await clock.now(connection)

    assert abs(now - await true_time(dsn) - timedelta(hours=1)) < timedelta(seconds=30)


async def test_what_is_decided_under_locks_is_of_the_time_of_the_server(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two daemons whose clocks differ the one that gets the locks later decides later."""
    monkeypatch.setattr(ServerClock, "extrapolated", lambda _: datetime(2024, 5, 1, tzinfo=UTC))

    async def work(db: Db) -> datetime:
        await pools.lock(db, DEFAULT_POOL, 0)
        return db.now

    async with database.connect(dsn) as ours:
        before = await true_time(dsn)
        decided_at = await ours.run(work)

    assert before < decided_at < await true_time(dsn)
