"""Answers of queries in rare states: a row that goes between two reads, and more rows than are counted."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg

from tests.integration.queries.blocks import BLOCKS, Connection
from tidegate.daemon.postgres.database import connect
from tidegate.schemas.queries import idempotency
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

OPEN = "INSERT INTO submission (submission_id, dag_run_id, task_index, try_number, backend, state) VALUES ($1, 1, $2, 1, 'b', $3)"


class Interrupted(Db):
    """After each statement, another request releases its key, unless it would have to wait."""

    async def fetch(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        rows = await super().fetch(sql, *args)
        with suppress(asyncpg.LockNotAvailableError):
            async with self.other.transaction():
                await self.other.execute("SET LOCAL lock_timeout = '50ms'")
                await self.other.execute("DELETE FROM idempotency_key")
        return rows

    other: "PoolConnectionProxy[asyncpg.Record]"


async def test_a_key_that_is_released_during_a_claim_is_known_or_free(schema: str) -> None:
    async with connect(schema) as database, database.pool.acquire() as other:

        async def claim(db: Db) -> idempotency.ClaimedKey:
            interrupted = Interrupted(db.connection, db.memory, db.now)
            interrupted.other = other
            return await idempotency.claim(interrupted, "anna", "k", b"digest")

        assert (await database.run(idempotency.claim, "anna", "k", b"digest")).is_new

        known = await database.run(claim)

    assert (known.digest, known.status) == (b"digest", None)


async def test_attempts_of_each_state_are_counted_behind_many_of_another(connection: Connection) -> None:
    db = Db(connection, Memory(), datetime.now(UTC))
    async with connection.transaction(), db.undone():
        for index, state in enumerate(("intent", "intent", "submitting", "accepted")):
            await db.execute(OPEN, uuid4(), index, state)

        (row,) = await db.fetch(BLOCKS["queue_pages.backends"], 1)

    assert (row["intents"], row["submitting"], row["accepted"]) == (1, 1, 1)
