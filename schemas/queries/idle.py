"""What is left to do, in the whole installation."""

from collections.abc import Mapping

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("idle")


class Left(msgspec.Struct, frozen=True):
    """How much of each kind there is to do now: nothing that only becomes due later, nothing that a user holds up."""

    runs: int
    reconsiderations: int
    attempts: int
    dags: int
    deadlines: int
    notifications: int
    outbox: int

    def __bool__(self) -> bool:
        return any(msgspec.structs.astuple(self))


async def left(db: Db) -> Left:
    (row,) = await db.fetch(_SQL["left"], db.now)
    return Left(*row)


async def positions(db: Db) -> Mapping[str, int]:
    """How far each partition has been taken, by the key of its lease."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["positions"])}
