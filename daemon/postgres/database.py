"""The connection pool of Postgres, and transactions that cancellation cannot interrupt.

Cancellation in anyio is level-triggered: a cancelled scope cancels even ROLLBACK. A transaction therefore runs shielded, with a
deadline, and cancellation takes effect between transactions.

At the deadline the client closes the connection and sends no cancel request. A cancel request ends the wait of a commit for its
synchronous standby: other sessions then see a commit that the standby, if it is promoted, does not have.
"""

import os
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import anyio
import asyncpg
import msgspec

from tidegate.daemon.postgres import array_elements, primary
from tidegate.daemon.postgres.commit_loss import CommitLossDetector
from tidegate.daemon.postgres.deadline import Deadline
from tidegate.daemon.postgres.locked_rows import SHORT_WAIT, LockedRows
from tidegate.daemon.postgres.server_clock import ServerClock
from tidegate.daemon.postgres.session_settings import FOR_PEOPLE, SERVER_SETTINGS, reading
from tidegate.daemon.postgres.types import Connection
from tidegate.schemas.error import FATAL, POSTGRES, TooSlowError, UnavailableError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.read_plan import RUN_EVENTS

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

T = TypeVar("T")
P = ParamSpec("P")

TRANSACTION_S = 15.0
"""The deadline of a transaction, including the wait for a connection."""

LATE_S = 5.0
"""Time for the client code to fail after the connection was closed at the deadline."""

TRIES = 5
AWAY = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.CannotConnectNowError, ConnectionError, OSError)
AGAIN = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
)


_CALL = re.compile(r"\[Errno (\d+)\] Connect call failed \('([^']*)', (\d+)[^)]*\)")
_NUMBER = re.compile(r"\[Errno -?\d+\] ")
"""What Python writes into the texts of its errors."""


class RefusedError(Exception):
    """Postgres refuses a new connection, although earlier ones were accepted; connections that are open may go on."""


INTERRUPTED = (
    RefusedError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InternalClientError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
    asyncpg.TransactionTimeoutError,
)

TOO_SLOW = (asyncpg.QueryCanceledError, asyncpg.IdleInTransactionSessionTimeoutError)
"""The timeouts of `SERVER_SETTINGS`."""

READ_ONLY = {"isolation": "repeatable_read", "readonly": True}
"""A transaction of one snapshot that cannot write."""

WHY_READ_ONLY = "; the server is a standby, or default_transaction_read_only is on for it, the database or the role"


class _Commit:
    """Whether the work of a transaction is done, so that only its commit is left."""

    is_asked = False


class _Cache:
    """The memory that all copies of a database use: a new connection replaces it for all of them."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.locked_rows = LockedRows()


class Database:
    """A pool of connections with the caches of this process: immutable rows and the offset of the server's clock.

    `author` is the daemon's id, None for other programs. `writer` names the daemon or the user in audit columns. `commit_loss`
    checks each new connection for lost commits. A run consumes at most `run_events` events. `has_connected`: the server has
    accepted the name, the password and the database of the DSN once.
    """

    def __init__(
        self,
        pool: "asyncpg.Pool[asyncpg.Record]",
        author: UUID | None = None,
        writer: str | None = None,
        commit_loss: CommitLossDetector | None = None,
        run_events: int = RUN_EVENTS,
        *,
        read_only: bool = False,
    ) -> None:
        self.pool = pool
        self._transaction: dict[str, Any] = READ_ONLY if read_only else {}
        self.run_events = run_events
        self.has_connected = False
        self.commit_loss = commit_loss
        self._cache = _Cache()
        self.clock = ServerClock()
        self.author = author
        self.writer = writer
        self.request: Mapping[str, str] = {}

    @property
    def memory(self) -> Memory:
        return self._cache.memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        self._cache.memory = memory

    async def run(self, work: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, *args, **kwargs)` in one transaction; repeat it after a serialization failure, deadlock or lock timeout.

        Raises UnavailableError when Postgres does not answer or the outcome of the commit is unknown, TooSlowError when it
        answers too slowly, and LockedError when another session holds a row for longer than all tries wait.
        The caller can repeat the call later, because every transaction compares the state that it expects.
        """
        return await self._with_retries(lambda db: work(db, *args, **kwargs), in_transaction=True)

    async def run_for_many(self, work: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for work on behalf of many, which does not wait again for a row that another session holds.

        After a lock timeout these transactions skip locked rows where they can, for a while, this one first. Raises LockedError
        for a row that cannot be skipped.
        """

        async def skipping(db: Db) -> T:
            if db.skips_locked:
                await db.execute(SHORT_WAIT)
            result = await work(db, *args, **kwargs)
            if db.skipped:
                self._cache.locked_rows.meet("rows are left out", for_many=True)
            return result

        return await self._with_retries(skipping, in_transaction=True, for_many=True)

    @property
    def skips_locked(self) -> bool:
        """Whether transactions for many skip locked rows now."""
        return self._cache.locked_rows.are_met

    async def autocommit(self, work: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run` but without BEGIN and COMMIT, which saves two of three round trips.

        For a single statement, also a write, and for reads that need no common snapshot.
        """
        return await self._with_retries(lambda db: work(db, *args, **kwargs), in_transaction=False)

    def written_by(self, writer: str, **request: str) -> "Database":
        """The same pool for a request of a user, who is named in audit columns. The audit log has the facts of the request."""
        mine = copy(self)
        mine.writer = writer
        mine.request = request
        return mine

    async def reconnect(self) -> None:
        """Replace all connections before their next use: each new one is checked."""
        self.clear_memory()
        await self.pool.expire_connections()

    def clear_memory(self) -> None:
        """Drop the cached rows: another server may lack them, or they were mended. Running transactions keep the old cache."""
        self.memory = Memory()

    async def _with_retries(self, work: Callable[[Db], Awaitable[T]], *, in_transaction: bool, for_many: bool = False) -> T:
        commit = _Commit()
        try:
            return await self._repeated(work, commit, in_transaction=in_transaction, for_many=for_many)
        except UnavailableError as error:
            error.may_be_done = commit.is_asked
            raise

    async def _repeated(self, work: Callable[[Db], Awaitable[T]], commit: _Commit, *, in_transaction: bool, for_many: bool) -> T:
        attempt = 0
        while True:
            attempt += 1
            skips = for_many and self.skips_locked
            await anyio.lowlevel.checkpoint()
            try:
                with anyio.fail_after(TRANSACTION_S + LATE_S, shield=True):
                    return await self._once(work, commit, in_transaction=in_transaction, skips_locked=skips)
            except asyncpg.LockNotAvailableError as error:
                self._cache.locked_rows.meet(describe(error), for_many=for_many, is_last=skips or attempt == TRIES)
            except AGAIN as error:
                if attempt == TRIES:
                    raise UnavailableError(f"Postgres refused {TRIES} times: {describe(error)}", server=POSTGRES) from error
                await anyio.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311, not a secret
            except TOO_SLOW as error:
                raise _too_slow(error) from error
            except (*AWAY, *INTERRUPTED, TimeoutError) as error:
                await self._drop_connections(error)
                raise UnavailableError(f"Postgres is not available: {describe(error)}", server=POSTGRES) from error

    async def _drop_connections(self, error: Exception) -> None:
        """A frozen or demoted server keeps its connections open: reconnect all, to the server that takes writes now."""
        self.clear_memory()
        if isinstance(error, (*AWAY, TimeoutError, asyncpg.ReadOnlySQLTransactionError)):
            await self.pool.expire_connections()

    @asynccontextmanager
    async def _connection(self) -> "AsyncIterator[tuple[Connected, Deadline]]":
        """Raises UnavailableError if all connections are in use for too long: these work, and are not replaced."""
        began_at, deadline = anyio.current_time(), None
        try:
            async with self.pool.acquire(timeout=TRANSACTION_S / 2) as connection:
                deadline = Deadline(connection, TRANSACTION_S - (anyio.current_time() - began_at))
                try:
                    yield connection, deadline
                finally:
                    deadline.cancel()
        except FATAL:
            raise
        except Exception as error:
            if deadline is not None and deadline.server_works:
                raise _too_slow(error) from error
            if deadline is None and isinstance(error, TimeoutError) and self._is_in_use():
                raise UnavailableError("all connections to Postgres are in use", server=POSTGRES) from error
            raise

    def _is_in_use(self) -> bool:
        """Whether all connections are."""
        return self.pool.get_size() >= self.pool.get_max_size() and not self.pool.get_idle_size()

    async def _once(
        self, work: Callable[[Db], Awaitable[T]], commit: _Commit, *, in_transaction: bool, skips_locked: bool = False
    ) -> T:
        commit.is_asked = False
        async with self._connection() as (connection, deadline):
            receipts = self.commit_loss.receipts if self.commit_loss else None
            number = receipts.next_number() if receipts else 0
            marker = losses.marker(receipts.daemon, connection.get_server_pid(), number) if receipts else None
            async with connection.transaction(**self._transaction) if in_transaction else nullcontext():
                now, told = await self.clock.now(connection), self.clock.told
                db = Db(connection, self.memory, now, told, marker, self.run_events, self.request, skips_locked=skips_locked)
                deadline.db = db
                result = await work(db)
                commit.is_asked = True
            if receipts and marker and marker.is_written:
                receipts.record(connection.get_server_pid(), number, self.clock.extrapolated())
            for act in db.on_commit:
                act()
            return result


@asynccontextmanager
async def connect(
    dsn: str,
    *,
    connections: int = 4,
    author: UUID | None = None,
    writer: str | None = None,
    commit_loss: CommitLossDetector | None = None,
    run_events: int = RUN_EVENTS,
    reads_within_s: float | None = None,
    for_people: bool = False,
    prefers_standby: bool = False,
) -> AsyncIterator[Database]:
    """Open the pool; the first transaction opens the first connection.

    With `reads_within_s` each transaction only reads, and a statement takes at most that long.
    `for_people`: statements are planned for the parameters at hand, as with `reads_within_s`.
    `prefers_standby`: connections are to a standby, if there is one among several servers.
    A login that Postgres refuses is a wrong setting until the first connection, and an outage afterwards.
    """

    array_elements.use_concrete_types()

    async def open_(*args: Any, **options: Any) -> "primary.Connection":
        try:
            connection = await primary.connect(*args, prefers_standby=prefers_standby, **options)
        except asyncpg.PostgresError as error:
            if isinstance(error, AWAY) or (isinstance(error, primary.NOT_LET_IN) and not database.has_connected):
                raise
            raise RefusedError(describe(error)) from error
        database.has_connected = True
        return connection

    async def init(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        await register_codecs(connection)
        database.clear_memory()
        if commit_loss is not None:
            await commit_loss.check(connection)

    pool = asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=connections,
        command_timeout=TRANSACTION_S + LATE_S,
        timeout=5,
        max_inactive_connection_lifetime=0,
        server_settings=(FOR_PEOPLE if for_people else SERVER_SETTINGS) if reads_within_s is None else reading(reads_within_s),
        connection_class=Connection,
        connect=open_,
        init=init,
        reset=no_reset,
    )
    database = Database(pool, author, writer, commit_loss, run_events, read_only=reads_within_s is not None)
    async with pool:
        yield database


def _too_slow(error: BaseException) -> TooSlowError:
    return TooSlowError(f"Postgres is too slow for a transaction: {describe(error)}", server=POSTGRES)


async def register_codecs(connection: Any) -> None:
    """Convert jsonb to Python values by msgspec."""
    await connection.set_type_codec(
        "jsonb", encoder=lambda value: msgspec.json.encode(value).decode(), decoder=msgspec.json.decode, schema="pg_catalog"
    )


async def no_reset(_connection: Any) -> None:
    """Saves a round trip per transaction: no session state outlasts a transaction."""


def describe(error: BaseException) -> str:
    """The text of an error as one line; its type where the text is empty."""
    if (problem := _tls_problem(error) or _connection_problem(error)) is not None:
        return problem
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{text}{WHY_READ_ONLY}" if isinstance(error, asyncpg.ReadOnlySQLTransactionError) else text


def _tls_problem(error: BaseException) -> str | None:
    """The advice about a certificate: the errors of Python name neither the server nor the file."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is refused ({error.verify_message}); check the host, and sslrootcert in its address"
        case FileNotFoundError(filename=None):
            return "a file in its address does not exist; check sslrootcert, sslcert and sslkey"
        case _:
            return None


def _connection_problem(error: BaseException) -> str | None:
    """What Python and asyncpg say in words about their own calls, or not at all."""
    match error:
        case TimeoutError():
            return "it does not answer"
        case asyncpg.ConnectionDoesNotExistError():
            return "the connection ended before the answer"
        case OSError():
            return _NUMBER.sub("", _CALL.sub(lambda call: f"{os.strerror(int(call[1]))} at {call[2]}:{call[3]}", str(error)))
        case _:
            return None
