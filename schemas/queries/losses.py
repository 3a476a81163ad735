"""Commits that were acknowledged and are not there: marks by which that is noticed, and losses on record."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from tidegate.schemas.queries.db import CommitMarker, Db
from tidegate.schemas.queries.sql import load

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

_SQL = load("losses")

SKIPPED = 1_000_000
"""How many numbers of events a run leaves out after a loss: more than can have been told in the time of one."""

RUNS = 50_000
"""How many runs at most: it takes a second."""


class Mark(msgspec.Struct, frozen=True):
    """Every transaction of a daemon writes the next number, and on which connection."""

    backend: int
    number: int
    at: datetime


class Place(msgspec.Struct, frozen=True):
    """Which database this is, whatever server it is on, and the server's timeline: None for a standby.

    `inherited_at`: when the last commit was made that the server got from the one before it, where it is not the first.
    """

    database: str
    timeline: str | None
    inherited_at: datetime | None


class LossRow(msgspec.Struct, frozen=True):
    """Commits of this time that were acknowledged are not there."""

    id: int
    since: datetime
    until: datetime
    timeline: str
    found_at: datetime
    found_by: str
    settled_at: datetime | None
    settled_by: str | None
    settled_because: str | None


def marker(daemon: UUID, backend: int, number: int) -> CommitMarker:
    """The marker of a daemon's transaction on a connection."""
    return CommitMarker(_SQL["mark"], daemon, backend, number)


async def place(connection: "Connected") -> Place:
    """Needs no schema of ours."""
    ((*facts,),) = await connection.fetch(_SQL["place"])
    return Place(*facts)


async def marks(connection: "Connected", daemon: UUID) -> dict[int, Mark]:
    """The newest of a daemon that are there, by connection."""
    return {row[0]: Mark(*row) for row in await connection.fetch(_SQL["marks"], daemon)}


async def record(db: Db, timeline: str, since: datetime, until: datetime, found_by: str) -> None:
    """Once for each loss, which several daemons may find out; no number is given twice to an event of a run at work."""
    ((_, is_new),) = await db.fetch(_SQL["record_loss"], timeline, since, until, found_by)
    if is_new:
        await db.execute(_SQL["skip_numbers"], SKIPPED, RUNS)


async def any_open(db: Db) -> bool:
    """Whether there is a loss that nobody has settled."""
    return bool((await db.fetch(_SQL["open_losses"]))[0][0])


async def list_losses(db: Db, *, settled: bool) -> list[LossRow]:
    """The newest first; those that are settled, too, where they are asked for."""
    return [LossRow(*row) for row in await db.fetch(_SQL["list_losses"], settled)]


async def settle(db: Db, id_: int, who: str, because: str) -> bool:
    """Close a loss, on record; False if it is not open."""
    if not await db.fetch(_SQL["settle_loss"], id_, who, because):
        return False
    await db.execute(_SQL["record_settling"], who, id_, {"because": because})
    return True


async def forget_spent(db: Db, daemon: UUID, numbers: Sequence[int]) -> None:
    """Drop these marks of a daemon: others vouch for them."""
    await db.execute(_SQL["forget_spent"], daemon, numbers)


async def forget_daemon(db: Db, daemon: UUID) -> None:
    """Drop the marks of a daemon that is no more."""
    await db.execute(_SQL["forget_daemon"], daemon)


async def forget_marks(db: Db, older_than_s: float) -> None:
    """Drop those of daemons long gone."""
    await db.execute(_SQL["forget_marks"], older_than_s)
