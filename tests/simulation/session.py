"""What a daemon takes for its pool of connections. Every statement is a step."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import asyncpg

from tests.simulation.server import Call, Ended, Raw, Server, Waiting
from tests.simulation.statements import label, may_wait, writes
from tests.simulation.step import Host, Step

if TYPE_CHECKING:
    from tests.simulation.scheduler import Scheduler

COMMIT, ROLLBACK = "COMMIT", "ROLLBACK"
CHAINED = {COMMIT: "COMMIT AND CHAIN", ROLLBACK: "ROLLBACK AND CHAIN"}
"""The next transaction of the connection begins in the same round trip."""

POSTGRES = "Postgres"
CUT = "cut before"
UNANSWERED = "done, unanswered"


class Session:
    """A connection as the product sees it: fetch, execute, transaction. A real one stands behind it while it needs one."""

    def __init__(self, host: Host, scheduler: "Scheduler") -> None:
        self.host = host
        self.scheduler = scheduler
        self.server: Server = scheduler.server
        self.raw: Raw | None = None
        self.in_transaction = False
        self.statements: list[tuple[str, tuple[Any, ...]]] = []
        self.waiting: Waiting | None = None
        self.lost: Exception | None = None
        self.rested_at = 0.0
        self.begun_at = self.server.now
        self.has_told = False

    async def fetch(self, sql: str, *args: Any) -> Any:
        return await self._ask("fetch", sql, args)

    async def execute(self, sql: str, *args: Any) -> Any:
        return await self._ask("execute", sql, args)

    def begin(self) -> None:
        if self.lost is not None:
            raise self.lost
        self.in_transaction = True
        self.has_told = False
        self.begun_at = self.server.now
        self.rested_at = self.server.loop.time()

    async def _ask(self, how: str, sql: str, args: tuple[Any, ...]) -> Any:
        if self.lost is not None:
            raise self.lost
        return await self.scheduler.wait(Statement(self, how, sql, args))

    def transaction(self) -> "Transaction":
        return Transaction(self)

    def terminate(self) -> None:
        self.gone(asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"))

    def gone(self, error: Exception) -> None:
        """The connection has ended; the scheduler rolls back its open transaction."""
        self.lost = self.lost or error
        self.scheduler.abandon(self)


class Transaction:
    """As asyncpg's, whose statements these are."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> Self:
        """BEGIN changes nothing that another session sees: it is no step, and is sent with the first statement."""
        self._session.begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.execute(COMMIT if error is None else ROLLBACK)


class Statement(Step):
    """One statement of one session."""

    server = POSTGRES

    def __init__(self, session: Session, how: str, sql: str, args: tuple[Any, ...]) -> None:
        super().__init__(session.host, label(sql))
        self.session = session
        self.how = how
        self.sql = sql
        self.args = args
        ends = sql == COMMIT or (not session.in_transaction and writes(sql))
        self.troubles = (CUT, UNANSWERED) if ends else (CUT,)
        self.trouble = ""

    @property
    def binding(self) -> bool:  # type: ignore[override]  # it changes
        return self.session.in_transaction

    async def take(self, trouble: str) -> bool:
        self.trouble = trouble
        session = self.session
        if trouble == CUT:
            self._cut()
            return True
        if session.raw is None:
            session.raw = await session.server.take(in_transaction=session.in_transaction)
        if session.in_transaction and not session.has_told and self.sql not in CHAINED:
            session.has_told = await session.server.tell_beginning(session.raw, session.begun_at)
        found = session.server.perform(session.raw, self._call(), may_wait=may_wait(self.sql))
        return self.heard(found)

    def _call(self) -> Call:
        return getattr(self.session.raw, self.how)(CHAINED.get(self.sql, self.sql), *self.args)  # type: ignore[no-any-return]  # one of two

    def heard(self, found: Ended | Waiting) -> bool:
        """Whether it has ended, one way or the other."""
        session = self.session
        if isinstance(found, Waiting):
            session.waiting = found
            return False
        session.waiting = None
        session.rested_at = session.server.loop.time()
        self._note(found.error)
        if self.trouble == UNANSWERED:
            self._cut()
        elif found.error is not None:
            self.fail(found.error)
        else:
            self.succeed(found.result)
        if not session.in_transaction and session.raw is not None:
            session.server.give_back(session.raw)
            session.raw = None
        return True

    def _note(self, error: BaseException | None) -> None:
        session = self.session
        session.statements.append((self.sql, self.args))
        if self.sql in CHAINED:
            session.in_transaction = False
        if error is not None or not session.in_transaction:
            assert session.raw is not None
            session.scheduler.let_go(session.raw)
        if not session.in_transaction:
            done, session.statements = session.statements, []
            if error is None and self.sql != ROLLBACK:
                session.scheduler.committed(self.place, done)

    def _cut(self) -> None:
        error = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        self.session.gone(error)
        self.fail(error)


class Pool:
    """As many connections as a daemon wants, until it is dead."""

    def __init__(self, host: Host, scheduler: "Scheduler") -> None:
        self._host = host
        self._scheduler = scheduler

    async def expire_connections(self) -> None:
        """Each is used once."""

    def acquire(self, *, timeout: float | None = None) -> "Acquired":  # noqa: ARG002 - as asyncpg's
        return Acquired(self._host, self._scheduler)


class Acquired:
    """A connection for a while."""

    def __init__(self, host: Host, scheduler: "Scheduler") -> None:
        self._session = Session(host, scheduler)

    async def __aenter__(self) -> Session:
        if self._session.host.dead:
            raise asyncpg.InterfaceError("pool is closed")
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session.raw is not None:
            self._session.gone(asyncpg.InterfaceError("connection was released"))
