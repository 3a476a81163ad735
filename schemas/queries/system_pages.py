"""The installation as pages show it: daemons, duties, the relay, the schema and the server."""

from datetime import datetime

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("system_pages")

COUNTED = 10_001
"""What is counted up to: ten thousand and more."""

TABLES = 12


class DaemonLine(msgspec.Struct, frozen=True):
    """A live daemon, and how many leases it has."""

    host: str
    pid: int
    version: str
    started_at: datetime
    heartbeat_at: datetime
    leases: int


class DutyLine(msgspec.Struct, frozen=True):
    """The duties of a kind, or the partitions of a topic. `offsets` is the sum of the next offsets of partitions."""

    kind: str
    topic: str
    number: int
    owned: int
    halted: int
    offsets: int | None


class RelayLine(msgspec.Struct, frozen=True):
    """The events that wait to be published, and the time of the first one."""

    events: int
    since: datetime | None


class MigrationLine(msgspec.Struct, frozen=True):
    """A migration of the schema that was applied."""

    name: str
    applied_at: datetime


class ServerLine(msgspec.Struct, frozen=True):
    """The Postgres server that was read, and the size of its database."""

    version: str
    database: str
    is_standby: bool
    bytes: int


class TableLine(msgspec.Struct, frozen=True):
    """A table with its partitions and indexes. `rows` is an estimate."""

    name: str
    bytes: int
    rows: int


async def daemons(db: Db) -> list[DaemonLine]:
    """The live daemons, oldest first."""
    return [DaemonLine(*row) for row in await db.fetch(_SQL["daemons"])]


async def duties(db: Db) -> list[DutyLine]:
    return [DutyLine(*row) for row in await db.fetch(_SQL["duties"])]


async def relay(db: Db) -> RelayLine:
    (row,) = await db.fetch(_SQL["relay"], COUNTED)
    return RelayLine(*row)


async def migrations(db: Db) -> list[MigrationLine]:
    """The migrations that were applied, in order."""
    return [MigrationLine(*row) for row in await db.fetch(_SQL["migrations"])]


async def server(db: Db) -> ServerLine:
    (row,) = await db.fetch(_SQL["server"])
    return ServerLine(*row)


async def tables(db: Db) -> list[TableLine]:
    """The largest tables."""
    return [TableLine(*row) for row in await db.fetch(_SQL["tables"], TABLES)]
