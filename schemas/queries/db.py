"""One transaction as queries see it, and the transposition of rows into columns for `unnest`."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.sql import together

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.pool import PoolConnectionProxy

    Connected = Connection[Record] | PoolConnectionProxy[Record]

REMEMBERED = 20_000
FILES = 200
"""Fewer: each may be large."""


class Memory:
    """Committed rows that never change, kept by one process: version id → graph and file, dataset URI → id. Oldest out first."""

    def __init__(self) -> None:
        self.graphs: dict[int, Graph] = {}
        self.files: dict[int, tuple[str, str]] = {}
        self.dataset_ids: dict[str, int] = {}

    def remember_graph(self, graph: Graph) -> None:
        _bound(self.graphs)
        self.graphs[graph.version_id] = graph

    def remember_file(self, version_id: int, path: str, source: str) -> None:
        _bound(self.files, FILES)
        self.files[version_id] = (path, source)

    def remember_dataset(self, uri: str, id_: int) -> None:
        _bound(self.dataset_ids)
        self.dataset_ids[uri] = id_


class Db:
    """A connection inside a transaction. `now` is the clock of the server when it began: the time of everything it decides.

    `author` is the daemon that writes; None for other programs. `writer` names it, or the user. `upon` is the kind of message
    that is handled. `statements` counts the round trips to Postgres.
    """

    __slots__ = ("_writes", "author", "connection", "memory", "now", "statements", "upon", "writer")

    def __init__(
        self, connection: "Connected", memory: Memory, now: datetime, author: UUID | None = None, writer: str | None = None
    ) -> None:
        self.author = author
        self.writer = writer
        self.upon: str | None = None
        self.connection = connection
        self.memory = memory
        self.now = now
        self.statements = 0
        self._writes: dict[str, tuple[str, Sequence[Any]]] = {}

    async def fetch(self, sql: str, *args: Any) -> "list[Record]":
        await self.flush()
        self.statements += 1
        return await self.connection.fetch(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        await self.flush()
        self.statements += 1
        return await self.connection.execute(sql, *args)

    async def write(self, table: str, sql: str, *args: Any) -> None:
        """Execute a statement, before whatever comes next that could tell: it goes together with others to other tables.

        It writes to `table` alone and reads nothing else, and begins with no WITH.
        """
        if table in self._writes:
            await self.flush()
        self._writes[table] = (sql, args)

    async def flush(self) -> None:
        """Execute what was to be written, all in one statement."""
        if not self._writes:
            return
        writes, self._writes = self._writes.values(), {}
        self.statements += 1
        sql = together(tuple(sql for sql, _ in writes), tuple(len(args) for _, args in writes))
        await self.connection.execute(sql, *(arg for _, args in writes for arg in args))


def columns(rows: Sequence[msgspec.Struct]) -> Sequence[Sequence[Any]]:
    """Structs of one type as one sequence per field, in the order of the fields. At least one row."""
    return [list(map(attrgetter(field), rows)) for field in rows[0].__struct_fields__]


def _bound(memory: dict[Any, Any], most: int = REMEMBERED) -> None:
    while len(memory) >= most:
        del memory[next(iter(memory))]
