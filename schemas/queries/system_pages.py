"""The installation as pages show it: daemons, leases, the relay, the schema and the server."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.cluster import ADDRESSES
from tidegate.schemas.dag import BACKENDS
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, OUTBOX, PARTITION, JobRow
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import listing

_SQL = load("system_pages")

TABLES = 12


class OwnedLease(NamedTuple):
    """A lease with an owner. The key is the number of a shard, or the name of a partition."""

    kind: str
    key: str


class DaemonLine(JobRow, frozen=True):
    """A live daemon, and the leases that it owns."""

    version: str
    owns: Sequence[OwnedLease]


class LeaseLine(msgspec.Struct, frozen=True):
    """The leases of a kind, or of the partitions of a topic: `halted` ones, and of the others `owned` with a live daemon.

    `offsets` is the sum of the next offsets of partitions.
    """

    kind: Annotated[str, listing((PARTITION, OUTBOX, CLOCK))]
    topic: str
    number: int
    owned: int
    halted: int
    offsets: int | None


class PartitionLine(msgspec.Struct, frozen=True):
    """A partition: its daemon, and the next offset that is read. The host and the pid are None without a live daemon."""

    partition: str
    host: str | None
    pid: int | None
    next_offset: int
    halted: bool


class LedgerLine(msgspec.Struct, frozen=True):
    """The event ledger: its oldest month (2612 is December 2026; 0: it has none), and how many were dropped.

    `retired_at`: when a month was last dropped, wholly or in part.
    """

    oldest: int
    dropped: int
    retired_at: datetime | None


class RelayLine(msgspec.Struct, frozen=True):
    """The events that wait to be published, and the time of the first one."""

    events: int
    since: datetime | None


class MigrationLine(msgspec.Struct, frozen=True):
    """A migration of the schema that was applied."""

    name: str
    applied_at: datetime


class UnconfirmedKill(msgspec.Struct, frozen=True):
    """An attempt that was killed and may go on; `reason` says where. `map_index` is that of an instance of a mapped task."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None
    reason: str


class SparkNeed(msgspec.Struct, frozen=True):
    """A cluster of Spark that tasks of `dags` DAGs need, such as of `dag_id`. `cluster` is empty for that of the host."""

    backend: str
    cluster: str
    dags: int
    dag_id: str


class UnknownCluster(msgspec.Struct, frozen=True):
    """A Spark cluster that no live daemon knows, and the number of tasks that wait for its address."""

    cluster: str
    backend: str
    tasks: int

    @property
    def address(self) -> str:
        return ADDRESSES[self.backend]


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


async def daemons(db: Db, *, after: tuple[datetime, UUID] | None = None, limit: int | None = None) -> list[DaemonLine]:
    """The live daemons, oldest first; those after the start and the id of one."""
    return [msgspec.convert(dict(row), DaemonLine) for row in await db.fetch(_SQL["daemons"], *(after or (None, None)), limit)]


async def leases(db: Db) -> list[LeaseLine]:
    return [LeaseLine(*row) for row in await db.fetch(_SQL["leases"])]


async def partitions(db: Db, *, after: str | None = None, limit: int | None = None) -> list[PartitionLine]:
    """The partitions that daemons read, by topic and number; those after one."""
    return [PartitionLine(*row) for row in await db.fetch(_SQL["partitions"], after, limit)]


async def months(db: Db) -> LedgerLine:
    (row,) = await db.fetch(_SQL["months"])
    return LedgerLine(*row)


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


async def unconfirmed(db: Db, within_s: float, limit: int) -> list[UnconfirmedKill]:
    """The attempts that were killed within a time, and whose work may go on, the oldest first."""
    return [UnconfirmedKill(*row) for row in await db.fetch(_SQL["unconfirmed"], within_s, limit)]


async def spark_needs(db: Db) -> list[SparkNeed]:
    """The clusters of Spark that tasks of DAGs need which are neither paused, held nor gone."""
    of_spark = {kind: backend for kind, backend in BACKENDS.items() if backend in ADDRESSES}
    return [SparkNeed(*row) for row in await db.fetch(_SQL["spark_needs"], [*of_spark], [*of_spark.values()])]


async def unknown_clusters(db: Db) -> list[UnknownCluster]:
    """The Spark clusters that tasks wait for and no live daemon knows."""
    return [UnknownCluster(*row) for row in await db.fetch(_SQL["unknown_clusters"])]
