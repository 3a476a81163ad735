"""A real Postgres whose every statement is known to have ended, or to wait for a lock, before anything else happens."""

import asyncio
import os
import signal
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg

from tests.simulation.loop import MICRO, VirtualLoop
from tidegate.daemon.postgres.database import SERVER_SETTINGS, register_codecs
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
STATEMENTS = 2000
"""Kept prepared by each connection: all there are."""

BLOCKERS = "SELECT pg_blocking_pids($1)"
GRANTED = "SELECT pid FROM unnest($1::integer[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) = 0"

Call = Coroutine[Any, Any, Any]


class Raw(NamedTuple):
    """A connection and the server's process for it."""

    connection: "asyncpg.Connection[asyncpg.Record]"
    pid: int


class Ended(NamedTuple):
    """What came of a statement."""

    result: Any
    error: Exception | None


class Waiting(NamedTuple):
    """A statement that waits for a lock; its process is stopped, so that it is also decided when it goes on."""

    task: "asyncio.Task[Any]"
    pid: int


class Server:
    """Connections for all daemons: the one that was given back last is taken first, so that few have to be made.

    Those for transactions are kept in one that has no statement yet: it has no snapshot and no lock, and BEGIN costs nothing.
    """

    def __init__(self, loop: VirtualLoop, dsn: str) -> None:
        self.loop = loop
        self.dsn = dsn
        self._stock: dict[bool, list[Raw]] = {False: [], True: []}
        self._told_us = -1
        self._all: list[Raw] = []
        self.statements = 0

    async def __aenter__(self) -> "Server":
        self._observer = await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        for raw in self._all:
            with suppress(ProcessLookupError):
                os.kill(raw.pid, signal.SIGCONT)
            raw.connection.terminate()

    async def _connect(self) -> Raw:
        connection = await asyncpg.connect(
            self.dsn,
            server_settings=dict(SETTINGS),
            statement_cache_size=STATEMENTS,
            max_cached_statement_lifetime=0,
            max_cacheable_statement_size=0,
        )
        await register_codecs(connection)
        raw = Raw(connection, connection.get_server_pid())
        self._all.append(raw)
        return raw

    async def take(self, *, in_transaction: bool) -> Raw:
        """One that is in a transaction without a statement, or in none."""
        if stock := self._stock[in_transaction]:
            return stock.pop()
        raw = await self._connect()
        if in_transaction:
            await raw.connection.execute("BEGIN")
        return raw

    def give_back(self, raw: Raw) -> None:
        self._stock[raw.connection.is_in_transaction()].append(raw)

    async def tell_beginning(self, raw: Raw, begun_at: datetime) -> bool:
        """Has `now()` be the time at which the transaction began; needless, and False, while no time has passed since."""
        if begun_at == self.now:
            return False
        await raw.connection.execute(f"SET LOCAL simulated.begun_at = '{begun_at.isoformat()}'")
        return True

    @property
    def now(self) -> datetime:
        return START + timedelta(microseconds=round(self.loop.time() * MICRO))

    async def ask(self, sql: str, *args: Any) -> Sequence[Any]:
        """Look at what is committed."""
        return await self._observer.connection.fetch(sql, *args)

    async def tell_time(self) -> None:
        """Has Postgres go by the time of the loop."""
        now_us = self.now_us
        if now_us != self._told_us:
            await self._observer.connection.fetch("SELECT setval('simulated_time', $1)", now_us)
            self._told_us = now_us

    @property
    def now_us(self) -> int:
        return (self.now - EPOCH) // timedelta(microseconds=1)

    async def begin(self, slots: Sequence[int]) -> None:
        """Empty but for the DAGs, at the beginning of time."""
        await self._observer.connection.fetch("SELECT begin_schedule($1, $2)", self.now_us, slots)
        self._told_us = self.now_us

    async def memory(self) -> Memory:
        """What a daemon has remembered that has seen all DAGs: what a schedule asks for must not depend on those before it."""
        memory = Memory()
        db = Db(self._observer.connection, memory, self.now)
        await datasets.get_or_create_ids(db, [row[0] for row in await self.ask("SELECT uri FROM dataset")])
        ids = [row[0] for row in await self.ask("SELECT id FROM dag_version")]
        await versions.graphs(db, ids)
        await sources.of_versions(db, ids)
        return memory

    async def clean(self) -> None:
        """Remove what was deleted."""
        await self._observer.connection.execute("VACUUM")

    async def perform(self, raw: Raw, call: Call, *, may_wait: bool) -> Ended | Waiting:
        """Send a statement, and wait for its end or until it is known to wait for a lock."""
        await self.tell_time()
        self.statements += 1
        if may_wait:
            return await self._watch(self.loop.create_task(call), raw.pid)
        try:
            return Ended(await call, None)
        except asyncpg.PostgresError as error:
            return Ended(None, error)

    async def _watch(self, task: "asyncio.Task[Any]", pid: int) -> Ended | Waiting:
        while True:
            await asyncio.wait({task, self.loop.silence()}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return _ended(task)
            if (await self.ask(BLOCKERS, pid))[0][0]:
                os.kill(pid, signal.SIGSTOP)
                return Waiting(task, pid)

    async def blockers(self, waiting: Waiting) -> Collection[int]:
        """Who blocks it now. A process that blocked it before may work for another daemon since."""
        found: Collection[int] = (await self.ask(BLOCKERS, waiting.pid))[0][0]
        return found

    async def granted(self, waiting: Collection[Waiting]) -> set[int]:
        """The processes of sessions whose lock was granted."""
        return {row[0] for row in await self.ask(GRANTED, [each.pid for each in waiting])}

    async def go_on(self, waiting: Waiting) -> Ended | Waiting:
        """Let one go on that has got its lock; it may have to wait for the next."""
        os.kill(waiting.pid, signal.SIGCONT)
        return await self._watch(waiting.task, waiting.pid)

    async def give_up(self, waiting: Waiting) -> None:
        """End a statement that waits."""
        os.kill(waiting.pid, signal.SIGCONT)
        await self.ask("SELECT pg_cancel_backend($1)", waiting.pid)
        with suppress(asyncpg.QueryCanceledError):
            await waiting.task


def _ended(task: "asyncio.Task[Any]") -> Ended:
    error = task.exception()
    if error is None:
        return Ended(task.result(), None)
    if not isinstance(error, asyncpg.PostgresError):
        raise error
    return Ended(None, error)


async def undone(raw: Raw) -> None:
    await raw.connection.execute("ROLLBACK AND CHAIN")
