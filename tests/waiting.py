"""Waiting for a state, never for a time: a busy machine comes later to it, and a test then takes longer."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from asyncio import Task

    import asyncpg

    from tidegate.daemon.postgres.database import Database

    Connection = asyncpg.Connection[asyncpg.Record]

EVERY_S = 0.02

AT_A_LOCK = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def until(holds: Callable[[], object], within_s: float, every_s: float = EVERY_S) -> None:
    """Look until it holds; an awaitable is awaited. Raises TimeoutError."""
    with anyio.fail_after(within_s):
        while not await _value(holds()):
            await anyio.sleep(every_s)


async def _value(found: object) -> object:
    return await found if isinstance(found, Awaitable) else found


async def until_found(db: "Connection", wanted: object, sql: str, *arguments: object, within_s: float) -> None:
    """Until the statement finds this value. Raises TimeoutError."""

    async def found() -> bool:
        return bool(await db.fetchval(sql, *arguments) == wanted)

    await until(found, within_s)


async def until_at_locks(database: "Database", how_many: int, within_s: float = 30.0) -> None:
    """Until this number of sessions of the database wait for locks. Raises TimeoutError."""

    async def waiting() -> bool:
        return bool(await database.pool.fetchval(AT_A_LOCK) >= how_many)

    await until(waiting, within_s)


async def until_ended_or_at_a_lock(database: "Database", work: "Task[object]", within_s: float = 30.0) -> bool:
    """Until this work has ended, or a session of the database waits for a lock. Returns whether it has ended."""

    async def stands() -> bool:
        return work.done() or bool(await database.pool.fetchval(AT_A_LOCK))

    await until(stands, within_s)
    return work.done()
