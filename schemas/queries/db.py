"""The transaction that queries run in, and the transposition of rows into columns for `unnest`."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tidegate.schemas.columns import Columns
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.read_plan import RUN_EVENTS

if TYPE_CHECKING:
    from asyncpg import Connection, Record
    from asyncpg.pool import PoolConnectionProxy

    Connected = Connection[Record] | PoolConnectionProxy[Record]


_COLLECTIONS = frozenset((set, frozenset, range, type({}.keys()), type({}.values())))
"""What may hold an array argument beside lists and tuples."""


LOCK, SKIP = "FOR NO KEY UPDATE", " SKIP LOCKED"
"""How each statement ends that `Db.lock` may skip rows with."""


class CommitMarker:
    """A statement that a transaction executes once, with its first writes. Its row proves that the transaction committed."""

    def __init__(self, sql: str, *args: Any) -> None:
        self.statement = (sql, args)
        self.is_written = False


def as_is(time: datetime) -> datetime:
    """The correction of a clock that needs none."""
    return time


class Db:
    """A connection inside a transaction.

    `now` is the time of all decisions: the clock of the server when it granted the last locks, so that the second of two
    decisions about a row is later; before any lock, an estimate of this clock. `corrected` maps each reading of the clock to the
    time to use. `on_commit` is called after the commit. `statements` counts the round trips. A run consumes at most `run_events`
    events. `request` says where the request of a user came from, for the audit log. `skips_locked`: loads that can do so leave
    out the rows that other sessions hold; `skipped` has their keys.
    """

    __slots__ = (
        "_corrected",
        "_marker",
        "connection",
        "memory",
        "now",
        "on_commit",
        "request",
        "run_events",
        "skipped",
        "skips_locked",
        "statements",
    )

    def __init__(
        self,
        connection: "Connected",
        memory: Memory,
        now: datetime,
        corrected: Callable[[datetime], datetime] = as_is,
        marker: CommitMarker | None = None,
        run_events: int = RUN_EVENTS,
        request: Mapping[str, str] | None = None,
        *,
        skips_locked: bool = False,
    ) -> None:
        self.connection = connection
        self.memory = memory
        self.now = now
        self.run_events = run_events
        self.request = request or {}
        self.on_commit: list[Callable[[], None]] = []
        self.statements = 0
        self.skips_locked = skips_locked
        self.skipped: set[Any] = set()
        self._corrected = corrected
        self._marker = marker

    async def fetch(self, sql: str, *args: Any) -> "list[Record]":
        self.statements += 1
        return await self.connection.fetch(sql, *_arguments(args))

    async def lock(self, sql: str, *args: Any, skips: bool = False) -> list[tuple[Any, ...]]:
        """Fetch with a statement that may wait for locks, and set `now` to when they were granted.

        `skips`: the caller can do without the rows that other sessions hold. Their keys are the first column.
        """
        skips = skips and self.skips_locked
        rows = await self.fetch(timed(f"{sql}{SKIP}" if skips else sql), *args)
        if rows:
            self.now = self._corrected(max(row[-1] for row in rows))
        if skips:
            found = {row[0] for row in await self.fetch(sql.removesuffix(LOCK), *args)}
            self.skipped |= found.difference(row[0] for row in rows)
        return [row[:-1] for row in rows]

    async def execute(self, sql: str, *args: Any) -> str:
        self.statements += 1
        return await self.connection.execute(sql, *_arguments(args))

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[None]:
        """Undo what the block writes and locks, at its end."""
        savepoint, known = self.connection.transaction(), len(self.on_commit)
        await savepoint.start()
        try:
            yield
        finally:
            del self.on_commit[known:]
            await savepoint.rollback()

    async def mark(self) -> None:
        """Write the commit marker, unless it was claimed before."""
        for sql, args in self.claim_marker():
            await self.execute(sql, *args)

    def claim_marker(self) -> Sequence[tuple[str, Sequence[Any]]]:
        """The statement of the commit marker, which the caller executes; empty if it was claimed before."""
        if self._marker is None or self._marker.is_written:
            return ()
        self._marker.is_written = True
        return (self._marker.statement,)


def _arguments(args: Sequence[Any]) -> Sequence[Any]:
    """As asyncpg takes them: each array as a list or a tuple."""
    return [list(arg) if type(arg) in _COLLECTIONS else arg for arg in args]


@cache
def timed(sql: str) -> str:
    """The statement with the clock of the server as its last column, read for each row after it was locked."""
    return f"SELECT locked.*, clock_timestamp() FROM ({sql}) AS locked"  # noqa: S608, a statement of ours


def columns(rows: Sequence[msgspec.Struct]) -> Sequence[Sequence[Any]]:
    """Transpose structs of one type, at least one, into a sequence per column, in the order of the fields."""
    return [list(map(attrgetter(path), rows)) for path in paths(type(rows[0]))]


@cache
def paths(type_: type[msgspec.Struct]) -> tuple[str, ...]:
    """The columns of a struct as attribute paths: fields of type `Columns` stand for their own fields."""
    return tuple(path for field in msgspec.structs.fields(type_) for path in _paths(field.name, field.type))


def _paths(name: str, type_: Any) -> Iterator[str]:
    is_part = isinstance(type_, type) and issubclass(type_, Columns)
    yield from (f"{name}.{path}" for path in paths(type_)) if is_part else (name,)
