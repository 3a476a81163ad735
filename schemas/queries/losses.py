"""Commit markers, and recorded losses of acknowledged commits."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from tidegate.schemas.effect.audit import OF_LOSS, object_name
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.db import CommitMarker, Db
from tidegate.schemas.queries.sql import load

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

_SQL = load("losses")

SKIPPED = 1_000_000
"""Sequence numbers that a run skips after a loss: more than it can have published in the lost time."""

RUNS = 50_000
"""The most runs whose numbers are skipped; this takes a second."""


class Mark(msgspec.Struct, frozen=True):
    """A commit marker: each transaction of a daemon writes the next number, with its connection."""

    backend: int
    number: int
    at: datetime


class ServerIdentity(msgspec.Struct, frozen=True):
    """The identity of a database, the same on all its servers, and the timeline of this server: None for a standby.

    `inherited_at`: time of the last commit that a promoted server received from its primary.
    """

    database: str
    timeline: str | None
    inherited_at: datetime | None


class LossRow(msgspec.Struct, frozen=True):
    """A loss of acknowledged commits, from `since` to `until`."""

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


async def server_identity(connection: "Connected") -> ServerIdentity:
    """The identity of the database and its server. Needs no migrated schema."""
    ((*facts,),) = await connection.fetch(_SQL["server_identity"])
    return ServerIdentity(*facts)


async def marks(connection: "Connected", daemon: UUID, least: int = 0) -> dict[int, Mark]:
    """The newest marker of a daemon per connection, of those with this number or a later one."""
    return {row[0]: Mark(*row) for row in await connection.fetch(_SQL["marks"], daemon, least)}


async def record(db: Db, timeline: str, since: datetime, until: datetime, found_by: str) -> None:
    """Record a loss once, however many daemons detect it. Active runs skip sequence numbers, so that none is published twice."""
    ((_, is_new),) = await db.fetch(_SQL["record_loss"], timeline, since, until, found_by)
    if is_new:
        await db.execute(_SQL["lock_dags"])
        await db.execute(_SQL["skip_numbers"], SKIPPED, RUNS)


async def any_open(db: Db) -> bool:
    """Whether a loss is open."""
    ((found,),) = await db.fetch(_SQL["any_open"])
    return bool(found)


async def list_losses(db: Db, *, settled: bool, before: int | None = None, limit: int | None = None) -> list[LossRow]:
    """The losses, newest first: open ones, with `settled` also others; those before one."""
    return [LossRow(*row) for row in await db.fetch(_SQL["list_losses"], settled, before, limit)]


async def settle(db: Db, id_: int, who: str, because: str) -> LossRow:
    """Settle a loss, and write the audit log. Raises NotFoundError if it is not open."""
    if not await db.fetch(_SQL["settle_loss"], id_, who, because):
        raise NotFoundError(f"there is no open loss {id_}; `tidegate losses list --all` shows all")
    await audit_log.record(db, who, "settled a loss of commits", object_name(OF_LOSS, id=id_), {"because": because})
    return (await list_losses(db, settled=True, before=id_ + 1, limit=1))[0]


async def forget_spent(db: Db, daemon: UUID, numbers: Sequence[int]) -> None:
    """Delete markers of a daemon that newer ones cover."""
    await db.execute(_SQL["forget_spent"], daemon, numbers)


async def forget_daemon(db: Db, daemon: UUID) -> None:
    """Delete the markers of a daemon that has left."""
    await db.execute(_SQL["forget_daemon"], daemon)


async def forget_marks(db: Db, older_than_s: float) -> None:
    """Delete markers older than `older_than_s`."""
    await db.execute(_SQL["forget_marks"], older_than_s)
