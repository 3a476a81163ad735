"""Postgres: the pool, and transactions that cancellation cannot tear.

anyio's cancellation is level-triggered: inside a cancelled scope even ROLLBACK is cancelled. So a transaction runs shielded, with
a deadline, and cancellation takes effect between transactions.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import anyio
import asyncpg
import msgspec

from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db, Memory

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

T = TypeVar("T")

TRANSACTION_S = 15.0
"""The deadline of a transaction, waiting for a connection included."""

ASK_CLOCK_EVERY_S = 5.0
DRIFT = 1e-4
"""How much two clocks may part per second, at most."""

TRIES = 5
AWAY = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.CannotConnectNowError, ConnectionError, OSError)
AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.InvalidCachedStatementError,
)
INTERRUPTED = (
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,
    asyncpg.QueryCanceledError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
)

# Everything we ask for all the time is found by an index, whatever is asked for. Left to itself Postgres reads whole tables while
# they are small, keeps such a plan while they grow, or plans a statement anew each time, which can take longer than executing it.
BY_INDEX = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}

SERVER_SETTINGS = {
    "application_name": "tidegate",
    "timezone": "UTC",
    "statement_timeout": "10s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "5s",
    "client_connection_check_interval": "1s",
    "jit": "off",
    **BY_INDEX,
}


class ServerClock:
    """The clock of the server, which all daemons go by, without a round trip for each look at it.

    It is asked now and then, and carried on by the monotonic clock of this host between. An answer that was long under way says
    less than an older one that was not: it counts only where that one must be wrong. After NTP's clock filter (RFC 5905, 10).
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._said = datetime.min.replace(tzinfo=UTC)
        self._said_at = 0.0
        self._error_s = float("inf")

    async def now(self, connection: "Connected") -> datetime:
        if monotonic() - self._asked_at > ASK_CLOCK_EVERY_S:
            asked_at = monotonic()
            said = await connection.fetchval("SELECT clock_timestamp()")
            self._asked_at = monotonic()
            self._hear(said, (asked_at + self._asked_at) / 2, (self._asked_at - asked_at) / 2)
        return self.carried_on()

    def _hear(self, said: datetime, at: float, error_s: float) -> None:
        grown_s = self._error_s + DRIFT * (at - self._said_at)
        if error_s <= grown_s or abs((said - self.carried_on()).total_seconds()) > error_s + grown_s:
            self._said, self._said_at, self._error_s = said, at, error_s

    def told(self, said: datetime) -> datetime:
        """The time when the server has just said it: its word counts."""
        return said

    def known(self) -> datetime:
        """The server's time as soon as it was asked; before that what this host takes for it."""
        return datetime.now(UTC) if self._asked_at == float("-inf") else self.carried_on()

    def carried_on(self) -> datetime:
        """Once it was asked."""
        return self._said + timedelta(seconds=monotonic() - self._said_at)


class Database:
    """A pool of connections, and what this process remembers of immutable rows and of the server's clock.

    `author` is the daemon that this process is, if it is one; `writer` names it, or whoever uses it.
    """

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", author: UUID | None = None, writer: str | None = None) -> None:
        self.pool = pool
        self.memory = Memory()
        self.clock = ServerClock()
        self.author = author
        self.writer = writer

    async def run(self, work: Callable[[Db], Awaitable[T]]) -> T:
        """Run `work` in one transaction; again from the start when it lost a conflict.

        Raises UnavailableError when Postgres is away or the outcome is unknown: the caller repeats it later, which is safe
        because every transaction checks what it expects to find.
        """
        return await self._patiently(partial(self._in_transaction, work))

    async def ask(self, work: Callable[[Db], Awaitable[T]]) -> T:
        """As `run`, for work that is one statement, and so a transaction by itself, or that reads what need not be of one moment.

        It spares two of three round trips.
        """
        return await self._patiently(partial(self._alone, work))

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, TRIES + 1):
            await anyio.lowlevel.checkpoint()
            try:
                with anyio.fail_after(TRANSACTION_S, shield=True):
                    return await once()
            except AGAIN as error:
                if attempt == TRIES:
                    raise UnavailableError(f"Postgres refused {TRIES} times: {describe(error)}", server="Postgres") from error
                await anyio.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311, not a secret
            except (*AWAY, *INTERRUPTED, TimeoutError) as error:
                raise UnavailableError(f"Postgres is not available: {describe(error)}", server="Postgres") from error
        raise AssertionError

    async def _in_transaction(self, work: Callable[[Db], Awaitable[T]]) -> T:
        async with self.pool.acquire(timeout=TRANSACTION_S / 2) as connection, connection.transaction():
            return await self._worked(work, connection)

    async def _alone(self, work: Callable[[Db], Awaitable[T]]) -> T:
        async with self.pool.acquire(timeout=TRANSACTION_S / 2) as connection:
            return await self._worked(work, connection)

    async def _worked(self, work: Callable[[Db], Awaitable[T]], connection: "Connected") -> T:
        now = await self.clock.now(connection)
        db = Db(connection, self.memory, now, self.author, self.writer, self.clock.told)
        result = await work(db)
        await db.flush()
        return result


@asynccontextmanager
async def connect(
    dsn: str, *, connections: int = 4, author: UUID | None = None, writer: str | None = None
) -> AsyncIterator[Database]:
    """Open the pool without needing the server yet: connections are made when they are used."""
    pool = asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=connections,
        command_timeout=TRANSACTION_S,
        timeout=5,
        max_inactive_connection_lifetime=0,
        server_settings=SERVER_SETTINGS,
        init=register_codecs,
        reset=leave_as_is,
    )
    async with pool:
        yield Database(pool, author, writer)


async def register_codecs(connection: Any) -> None:
    """JSON columns are Python values; encoded by msgspec."""
    await connection.set_type_codec(
        "jsonb", encoder=lambda value: msgspec.json.encode(value).decode(), decoder=msgspec.json.decode, schema="pg_catalog"
    )


async def leave_as_is(_connection: Any) -> None:
    """Nothing of ours outlasts its transaction, so there is nothing to reset: a round trip less for each of them."""


def describe(error: BaseException) -> str:
    """An error as one line for people, where its text may be empty."""
    text = " ".join(str(error).split())
    return text or type(error).__name__
