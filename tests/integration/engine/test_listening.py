"""The connection by which daemons wake each other: lost in whatever way, it is made anew, and no reason for a daemon to end."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import anyio
import asyncpg
import pytest

from tests.storms.links import PostgresLink
from tidegate.daemon import wake
from tidegate.daemon.wake import Signals, listen

LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE application_name = 'tidegate listener' AND datname = current_database() AND state = 'idle'
"""
WITHIN_S = 30.0


class LateEnd(PostgresLink):
    """Passes on what Postgres says last, but not that it has hung up."""

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool) -> None:
        await super()._pass_on(reader, writer, requests=requests)
        if not requests:
            await anyio.sleep_forever()


@pytest.fixture
async def way(dsn: str) -> AsyncIterator[LateEnd]:
    link = LateEnd("a way", dsn, Random(0))
    async with link.open():
        yield link


async def listener(dsn: str, *, other_than: int = 0) -> int:
    """The process of Postgres that serves one."""
    db = await asyncpg.connect(dsn)
    try:
        with anyio.fail_after(WITHIN_S):
            while not (pids := [row[0] for row in await db.fetch(LISTENERS) if row[0] != other_than]):
                await anyio.sleep(0.05)
        return int(pids[0])
    finally:
        await db.close()


async def test_a_listener_that_is_told_that_postgres_ends_listens_anew(
    dsn: str, way: LateEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(wake, "RECONNECT_S", 0.1)
    async with anyio.create_task_group() as tg:
        tg.start_soon(listen, way.dsn, Signals())
        first = await listener(dsn)
        db = await asyncpg.connect(dsn)
        await db.execute("SELECT pg_terminate_backend($1)", first)
        await db.close()
        second = await listener(dsn, other_than=first)
        tg.cancel_scope.cancel()

    assert second != first
