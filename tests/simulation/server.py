"""A real Postgres whose every statement is known to have ended, or to wait for a lock, before anything else happens."""

import asyncio
import os
import signal
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from tests.simulation.loop import VirtualLoop
from tests.simulation.wire import Wire
from tidegate.daemon.postgres import array_elements, types
from tidegate.daemon.postgres.database import register_codecs
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.schemas.queries import datasets, sources, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SETTINGS: Mapping[str, str] = {
    **SERVER_SETTINGS,
    # What ends by real time would end whenever it likes: the scheduler ends it by the time of the simulation instead.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "client_connection_check_interval": "0",
    "deadlock_timeout": "1h",
    "synchronous_commit": "off",
}
BLOCKERS = "SELECT pg_blocking_pids($1)"
GRANTED = "SELECT pid FROM unnest($1::integer[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) = 0"

CLEANED = ((20, "job"), (200, ""))
"""The number of schedules after which a table is vacuumed, or with no name all: deleted rows slow scans down.

Each renewal and claim reads the whole of `job`.
"""

Call = Coroutine[Any, Any, Any]

ALL = True
"""Rows are wanted."""


class Raw(NamedTuple):
    """A connection, the way to it, the server's process for it, and its statements."""

    connection: "asyncpg.Connection[asyncpg.Record]"
    wire: Wire
    pid: int
    prepared: dict[str, "PreparedStatement[asyncpg.Record]"]

    async def fetch(self, sql: str, *args: Any) -> "list[asyncpg.Record]":
        return (await self._executed(sql, args))[0]  # type: ignore[no-any-return]  # that of asyncpg's protocol

    async def execute(self, sql: str, *args: Any) -> str:
        """The status. Without arguments it may be several statements."""
        if not args:
            return await self._protocol.query(sql, None)  # type: ignore[no-any-return]  # as above
        return (await self._executed(sql, args))[1].decode()  # type: ignore[no-any-return]  # as above

    async def _executed(self, sql: str, args: Sequence[Any]) -> Any:
        """Rows, status and whether these are all: by asyncpg's protocol itself, without what surrounds that."""
        statement = self.prepared.get(sql)
        if statement is None:
            statement = self.prepared[sql] = await self.connection.prepare(sql, name=f"s{len(self.prepared)}")
        return await self._protocol.bind_execute(statement._state, args, "", 0, ALL, None)  # type: ignore[attr-defined]

    @property
    def _protocol(self) -> Any:
        return self.connection._protocol  # type: ignore[attr-defined]  # asyncpg's


class Ended(NamedTuple):
    """What came of a statement."""

    result: Any
    error: Exception | None


class Waiting(NamedTuple):
    """A statement that waits for a lock; its process is stopped, so that it is also decided when it goes on.

    `behind` are the processes that it waited for when it was stopped.
    """

    raw: Raw
    answer: "Answer"
    behind: Collection[int]

    @property
    def pid(self) -> int:
        return self.raw.pid


class Answer:
    """A call to a server, carried out without the loop as far as the server has answered."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.ended: Ended | None = None
        self._awaited: asyncio.Future[Any] | None = None
        self._go_on()

    def _go_on(self) -> None:
        try:
            self._awaited = self._call.send(None)
        except StopIteration as end:
            self.ended = Ended(end.value, None)
        except asyncpg.PostgresError as error:
            self.ended = Ended(None, error)

    def hear(self, wire: Wire) -> None:
        wire.hear()
        if self._awaited is not None and self._awaited.done():
            self._go_on()

    def wait(self, wire: Wire) -> Ended:
        while self.ended is None:
            self.hear(wire)
        return self.ended


class Server:
    """Connections for all daemons: the one that was given back last is taken first, so that few have to be made.

    Those for transactions are kept in one that has no statement yet: it has no snapshot and no lock, and BEGIN costs nothing.
    """

    def __init__(self, loop: VirtualLoop, dsn: str) -> None:
        self.loop = loop
        self.dsn = dsn
        self._stock: dict[bool, list[Raw]] = {False: [], True: []}
        self._told_us = -1
        self._now = (0, START)
        self._all: list[Raw] = []
        self._begun = 0
        self.statements = 0

    async def __aenter__(self) -> "Server":
        array_elements.use_concrete_types()
        self._observer = await self._connect()
        os.sched_setaffinity(0, os.sched_getaffinity(self._observer.pid))
        return self

    async def __aexit__(self, *_: object) -> None:
        for raw in self._all:
            with suppress(ProcessLookupError):
                os.kill(raw.pid, signal.SIGCONT)
            raw.connection.terminate()

    async def _connect(self) -> Raw:
        connection = await asyncpg.connect(
            self.dsn, connection_class=types.Connection, server_settings=dict(SETTINGS), statement_cache_size=0, ssl=False
        )
        await register_codecs(connection)
        wire = self.loop.wire
        wire.leave_loop()
        raw = Raw(connection, wire, connection.get_server_pid(), {})
        self._all.append(raw)
        return raw

    async def take(self, *, in_transaction: bool) -> Raw:
        """One that is in a transaction without a statement, or in none."""
        if stock := self._stock[in_transaction]:
            return stock.pop()
        raw = await self._connect()
        if in_transaction:
            _wait(raw, raw.execute("BEGIN"))
        return raw

    def give_back(self, raw: Raw) -> None:
        self._stock[raw.connection.is_in_transaction()].append(raw)

    async def tell_beginning(self, raw: Raw, begun_at: datetime) -> bool:
        """Has `now()` be the time at which the transaction began; needless, and False, while no time has passed since."""
        if begun_at == self.now:
            return False
        _wait(raw, raw.execute(f"SET LOCAL simulated.begun_at = '{begun_at.isoformat()}'"))
        return True

    @property
    def now(self) -> datetime:
        if self._now[0] != self.loop.now_us:
            self._now = self.loop.now_us, START + timedelta(microseconds=self.loop.now_us)
        return self._now[1]

    async def ask(self, sql: str, *args: Any) -> Sequence[Any]:
        """Look at what is committed."""
        return self._observe(sql, *args)

    def _observe(self, sql: str, *args: Any) -> Sequence[Any]:
        found: Sequence[Any] = _wait(self._observer, self._observer.fetch(sql, *args))
        return found

    def tell_time(self) -> None:
        """Has Postgres go by the time of the loop."""
        if self.loop.now_us != self._told_us:
            self._observe("SELECT setval('simulated_time', $1)", self.now_us)
            self._told_us = self.loop.now_us

    @property
    def now_us(self) -> int:
        return (self.now - EPOCH) // timedelta(microseconds=1)

    async def begin(self, slots: Sequence[int]) -> None:
        """Empty but for the DAGs, at the beginning of time."""
        self._observe("SELECT begin_schedule($1, $2)", self.now_us, slots)
        self._told_us = self.loop.now_us
        self._begun += 1
        for every, tables in CLEANED:
            if self._begun % every == 0:
                _wait(self._observer, self._observer.execute(f"VACUUM {tables}"))

    async def memory(self) -> Memory:
        """What a daemon has remembered that has seen all DAGs: what a schedule asks for must not depend on those before it."""
        memory = Memory()
        _wait(self._observer, _remember(Db(self._observer, memory, self.now)))  # type: ignore[arg-type]  # what it has is all that is asked for
        return memory

    def perform(self, raw: Raw, call: Call, *, may_wait: bool) -> Ended | Waiting:
        """Send a statement, and wait for its end or until it is known to wait for a lock."""
        self.tell_time()
        self.statements += 1
        answer = Answer(call)
        return self._watch(raw, answer) if may_wait else answer.wait(raw.wire)

    def _watch(self, raw: Raw, answer: Answer) -> Ended | Waiting:
        while answer.ended is None:
            if not raw.wire.is_silent():
                answer.hear(raw.wire)
            elif _is_asleep(raw.pid) and (behind := self._observe(BLOCKERS, raw.pid)[0][0]):
                os.kill(raw.pid, signal.SIGSTOP)
                return Waiting(raw, answer, behind)
        return answer.ended

    async def blockers(self, waiting: Waiting) -> Collection[int]:
        """Who blocks it now. A process that blocked it before may work for another daemon since."""
        found: Collection[int] = self._observe(BLOCKERS, waiting.pid)[0][0]
        return found

    async def granted(self, waiting: Collection[Waiting]) -> set[int]:
        """The processes of sessions whose lock was granted."""
        return {row[0] for row in self._observe(GRANTED, [each.pid for each in waiting])}

    async def go_on(self, waiting: Waiting) -> Ended | Waiting:
        """Let one go on that has got its lock; it may have to wait for the next."""
        os.kill(waiting.pid, signal.SIGCONT)
        return self._watch(waiting.raw, waiting.answer)

    async def give_up(self, waiting: Waiting) -> None:
        """End a statement that waits."""
        os.kill(waiting.pid, signal.SIGCONT)
        self._observe("SELECT pg_cancel_backend($1)", waiting.pid)
        ended = waiting.answer.wait(waiting.raw.wire)
        if ended.error is not None and not isinstance(ended.error, asyncpg.QueryCanceledError):
            raise ended.error


def _is_asleep(pid: int) -> bool:
    """Not if it works, or would if it had a core."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"S")


def _wait(raw: Raw, call: Call) -> Any:
    """What comes of a call that waits for no lock."""
    ended = Answer(call).wait(raw.wire)
    if ended.error is not None:
        raise ended.error
    return ended.result


async def _remember(db: Db) -> None:
    await datasets.get_or_create_ids(db, [row[0] for row in await db.fetch("SELECT uri FROM dataset")])
    ids = [row[0] for row in await db.fetch("SELECT id FROM dag_version")]
    await versions.graphs(db, ids)
    await sources.of_versions(db, ids)


async def undone(raw: Raw) -> None:
    _wait(raw, raw.execute("ROLLBACK AND CHAIN"))
