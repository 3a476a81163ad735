"""One transaction as queries see it, and the transposition of rows into columns for `unnest`."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.low_watermarks import LowWatermarks, Observation
from tidegate.schemas.queries.sql import together, written
from tidegate.schemas.view import Columns

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.pool import PoolConnectionProxy

    Connected = Connection[Record] | PoolConnectionProxy[Record]

REMEMBERED = 20_000
MARKS = "commit_mark"
FILES = 200
"""Fewer: each may be large."""


class Memory:
    """Committed rows that never change, kept by one process: version id → graph and file, dataset URI → id. Oldest out first.

    And hints: the `places` where rows of leases were last, by key; `low_watermarks` of the pending queues of DAGs.
    """

    def __init__(self) -> None:
        self.graphs: dict[int, Graph] = {}
        self.files: dict[int, tuple[str, str]] = {}
        self.dataset_ids: dict[str, int] = {}
        self.places: dict[str, str] = {}
        self.low_watermarks = LowWatermarks()

    def remember_graph(self, graph: Graph) -> None:
        _bound(self.graphs)
        self.graphs[graph.version_id] = graph

    def remember_file(self, version_id: int, path: str, source: str) -> None:
        _bound(self.files, FILES)
        self.files[version_id] = (path, source)

    def remember_dataset(self, uri: str, id_: int) -> None:
        _bound(self.dataset_ids)
        self.dataset_ids[uri] = id_


def identity(said: datetime) -> datetime:
    """The server is right."""
    return said


class Db:
    """A connection inside a transaction. `now` is the time of everything it decides: the clock of the server when it last got
    locks, so that of two that decide about one thing the later one decides later. Before that it is what we take for that clock.

    `author` is the daemon that writes; None for other programs. `writer` names it, or the user. `told` is the time when the
    server has said it. `upon` is the kind of message that is handled. `statements` counts the round trips to Postgres. `seen` is
    what was seen to wait for DAGs, to be remembered after the commit.
    `mark` is a statement that goes with the first of what is written, by which it is known later that it was; `marked`: it did.
    """

    __slots__ = (
        "_mark",
        "_told",
        "_writes",
        "author",
        "connection",
        "marked",
        "memory",
        "now",
        "seen",
        "statements",
        "upon",
        "writer",
    )

    def __init__(
        self,
        connection: "Connected",
        memory: Memory,
        now: datetime,
        author: UUID | None = None,
        writer: str | None = None,
        told: Callable[[datetime], datetime] = identity,
        mark: tuple[str, tuple[Any, ...]] | None = None,
    ) -> None:
        self._mark = mark
        self.marked = False
        self.author = author
        self.writer = writer
        self._told = told
        self.upon: str | None = None
        self.connection = connection
        self.memory = memory
        self.now = now
        self.statements = 0
        self.seen: dict[str, Observation] = {}
        self._writes: dict[str, tuple[str, Sequence[Any]]] = {}

    async def fetch(self, sql: str, *args: Any) -> "list[Record]":
        await self.flush()
        self.statements += 1
        return await self.connection.fetch(sql, *args)

    async def lock(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Fetch with a statement that may have to wait for locks: time passes."""
        rows = await self.fetch(timed(sql), *args)
        if rows:
            self.now = self._told(max(row[-1] for row in rows))
        return [row[:-1] for row in rows]

    async def execute(self, sql: str, *args: Any) -> str:
        await self.flush()
        self.statements += 1
        return await self.connection.execute(sql, *args)

    async def write(self, sql: str, *args: Any) -> None:
        """Execute a statement before the next one that reads, together with others that write other tables.

        It is one INSERT, UPDATE or DELETE, and reads no table but the one that it writes.
        """
        table = written(sql)
        if table in self._writes:
            await self.flush()
        self._writes[table] = (sql, args)

    def mark(self) -> None:
        """Once in a transaction, whatever else it writes."""
        if self._mark is not None:
            self._writes = {MARKS: self._mark, **self._writes}
            self._mark = None
            self.marked = True

    async def flush(self) -> None:
        """Execute what was to be written, all in one statement."""
        if not self._writes:
            return
        self.mark()
        writes, self._writes = self._writes.values(), {}
        self.statements += 1
        sql = together(tuple(sql for sql, _ in writes), tuple(len(args) for _, args in writes))
        await self.connection.execute(sql, *(arg for _, args in writes for arg in args))


@cache
def timed(sql: str) -> str:
    """The statement with the clock of the server as its last column: of each row once it is locked, and not as it was found."""
    return f"SELECT locked.*, clock_timestamp() FROM ({sql}) AS locked"  # noqa: S608, a statement of ours


def columns(rows: Sequence[msgspec.Struct]) -> Sequence[Sequence[Any]]:
    """Structs of one type as one sequence per column, in the order of the fields. At least one row."""
    return [list(map(attrgetter(path), rows)) for path in paths(type(rows[0]))]


@cache
def paths(type_: type[msgspec.Struct]) -> tuple[str, ...]:
    """The columns of a struct as attribute paths: fields of type `Columns` stand for their own fields."""
    return tuple(path for field in msgspec.structs.fields(type_) for path in _paths(field.name, field.type))


def _paths(name: str, type_: Any) -> Iterator[str]:
    if isinstance(type_, type) and issubclass(type_, Columns):
        yield from (f"{name}.{path}" for path in paths(type_))
    else:
        yield name


def _bound(memory: dict[Any, Any], most: int = REMEMBERED) -> None:
    while len(memory) >= most:
        del memory[next(iter(memory))]
