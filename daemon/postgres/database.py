"""Postgres: the pool, and transactions that cancellation cannot tear.

anyio's cancellation is level-triggered: inside a cancelled scope even ROLLBACK is cancelled. So a transaction runs shielded, with
a deadline, and cancellation takes effect between transactions.

At the deadline the connection ends, and nothing is asked to be cancelled: a commit that waits for its synchronous standby would
be done by that, and be seen by everybody, though a standby that is promoted then does not have it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import anyio
import asyncpg
import msgspec

from tidegate.daemon.postgres import primary
from tidegate.daemon.postgres.commit_loss import Lookout
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db, Memory
from tidegate.schemas.queries.losses import marking

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

T = TypeVar("T")
P = ParamSpec("P")

TRANSACTION_S = 15.0
"""The deadline of a transaction, waiting for a connection included."""

LATE_S = 5.0
"""So long after its deadline a transaction whose connection was ended has given up, too."""

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
    asyncpg.ReadOnlySQLTransactionError,
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


class Database:
    """A pool of connections, and what this process remembers of immutable rows and of the server's clock.

    `author` is the daemon that this process is, if it is one; `writer` names it, or whoever uses it. `lookout` notices when a
    server lacks what was acknowledged.
    """

    def __init__(
        self,
        pool: "asyncpg.Pool[asyncpg.Record]",
        author: UUID | None = None,
        writer: str | None = None,
        lookout: Lookout | None = None,
    ) -> None:
        self.pool = pool
        self.lookout = lookout
        self.memory = Memory()
        self.clock = ServerClock()
        self.author = author
        self.writer = writer

    async def run(self, work: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, *args, **kwargs)` in one transaction; again from the start when it lost a conflict.

        Raises UnavailableError when Postgres is away or the outcome is unknown: the caller repeats it later, which is safe
        because every transaction checks what it expects to find.
        """
        return await self._patiently(partial(self._in_transaction, lambda db: work(db, *args, **kwargs)))

    async def ask(self, work: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for work that is one statement, and so a transaction by itself, or that reads what need not be of one moment.

        It spares two of three round trips.
        """
        return await self._patiently(partial(self._alone, lambda db: work(db, *args, **kwargs)))

    def forget(self) -> None:
        """Another server may lack what was read from the one before it. Transactions under way go on with what they know."""
        self.memory = Memory()

    async def _patiently(self, once: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(1, TRIES + 1):
            await anyio.lowlevel.checkpoint()
            try:
                with anyio.fail_after(TRANSACTION_S + LATE_S, shield=True):
                    return await once()
            except AGAIN as error:
                if attempt == TRIES:
                    raise UnavailableError(f"Postgres refused {TRIES} times: {describe(error)}", server="Postgres") from error
                await anyio.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311, not a secret
            except (*AWAY, *INTERRUPTED, TimeoutError) as error:
                await self._leave(error)
                raise UnavailableError(f"Postgres is not available: {describe(error)}", server="Postgres") from error
        raise AssertionError

    async def _leave(self, error: Exception) -> None:
        """A server that is frozen, or takes no writes any more, keeps its connections: all are made anew, to whichever works."""
        self.forget()
        if isinstance(error, (*AWAY, TimeoutError, asyncpg.ReadOnlySQLTransactionError)):
            await self.pool.expire_connections()

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[Connected]":
        began_at = anyio.current_time()
        async with self.pool.acquire(timeout=TRANSACTION_S / 2) as connection:
            left_s = TRANSACTION_S - (anyio.current_time() - began_at)
            end = asyncio.get_running_loop().call_later(left_s, connection.terminate)
            try:
                yield connection
            finally:
                end.cancel()

    async def _in_transaction(self, work: Callable[[Db], Awaitable[T]]) -> T:
        async with self._connection() as connection:
            number = self._next()
            async with connection.transaction():
                db, result = await self._worked(work, connection, number)
            self._take(connection, number, marked=db.marked)
            db.memory.floors.rise(db.seen)
            return result

    async def _alone(self, work: Callable[[Db], Awaitable[T]]) -> T:
        async with self._connection() as connection:
            number = self._next()
            db, result = await self._worked(work, connection, number)
            self._take(connection, number, marked=db.marked)
            return result

    async def _worked(self, work: Callable[[Db], Awaitable[T]], connection: "Connected", number: int) -> tuple[Db, T]:
        now = await self.clock.now(connection)
        mark = marking(self.lookout.daemon, connection.get_server_pid(), number) if self.lookout else None
        db = Db(connection, self.memory, now, self.author, self.writer, self.clock.told, mark)
        result = await work(db)
        await db.flush()
        return db, result

    def _next(self) -> int:
        return self.lookout.receipts.next() if self.lookout else 0

    def _take(self, connection: "Connected", number: int, *, marked: bool) -> None:
        """What was written is acknowledged."""
        if self.lookout and marked:
            self.lookout.receipts.take(connection.get_server_pid(), number, self.clock.carried_on())


@asynccontextmanager
async def connect(
    dsn: str, *, connections: int = 4, author: UUID | None = None, writer: str | None = None, lookout: Lookout | None = None
) -> AsyncIterator[Database]:
    """Open the pool without needing the server yet: connections are made when they are used."""

    async def init(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        await register_codecs(connection)
        database.forget()
        if lookout is not None:
            await lookout.look(connection)

    pool = asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=connections,
        command_timeout=TRANSACTION_S + LATE_S,
        timeout=5,
        max_inactive_connection_lifetime=0,
        server_settings=SERVER_SETTINGS,
        connect=primary.connect,
        init=init,
        reset=leave_as_is,
    )
    database = Database(pool, author, writer, lookout)
    async with pool:
        yield database


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
