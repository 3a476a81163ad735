"""Outstanding work of the whole installation."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from tidegate.schemas.dag import REPEAT_DIGEST, archive_of
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


async def held_dags(db: Db) -> list[str]:
    """The held DAGs, whose work waits for a user; at most 100."""
    return [row[0] for row in await db.fetch(_SQL["held_dags"])]


class ShortPool(msgspec.Struct, frozen=True):
    """A pool that never has the slots that `tasks` wait for, such as one of `dag_id`. They need `wanted` slots at most.

    `slots` is None for a pool that does not exist.
    """

    pool: str
    slots: int | None
    tasks: int
    wanted: int
    dag_id: str


async def short_pools(db: Db) -> list[ShortPool]:
    """The pools whose tasks wait for a user, by name; at most 100."""
    return [ShortPool(*row) for row in await db.fetch(_SQL["short_pools"])]


async def positions(db: Db) -> Mapping[str, int]:
    """The offset of each partition, by the key of its lease."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["positions"])}


async def parsed_in_vain(db: Db, job: UUID) -> set[str]:
    """The files that were parsed since this daemon began and are to be parsed again; archives stand for files in them."""
    paths = [row[0] for row in await db.fetch(_SQL["parsed_in_vain"], REPEAT_DIGEST, job)]
    return {archive_of(path) or path for path in paths}
