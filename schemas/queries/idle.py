"""Outstanding work of the whole installation."""

from collections.abc import Mapping

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("idle")


class OutstandingWork(msgspec.Struct, frozen=True):
    """Outstanding work by kind, without work that becomes due later or waits for a user."""

    runs: int
    reconsiderations: int
    attempts: int
    dags: int
    backfills: int
    deadlines: int
    notifications: int
    outbox: int

    def __bool__(self) -> bool:
        return any(msgspec.structs.astuple(self))


async def outstanding_work(db: Db) -> OutstandingWork:
    (row,) = await db.fetch(_SQL["outstanding_work"], db.now)
    return OutstandingWork(*row)


async def positions(db: Db) -> Mapping[str, int]:
    """The offset of each partition, by the key of its lease."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["positions"])}
