"""Wake-ups after a commit: of this process at once, of other daemons by a coalesced NOTIFY.

They are hints and may get lost: every duty also polls.
"""

from collections.abc import Sequence
from contextlib import suppress

import anyio
import asyncpg
import structlog
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.postgres.database import AWAY, Database, describe
from tidegate.daemon.postgres.primary import connect
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.daemon.work import Work
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db

log = structlog.get_logger()

CHANNEL = "tidegate"
NOTIFY_EVERY_S = 0.05
CHECK_EVERY_S = 5.0
RECONNECT_S = 2.0


class Signal:
    """An event that resets when a wait ends. Set many times before a wait, it ends that wait only."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """True as soon as the signal is set, also before the call; False after `timeout_s`."""
        with anyio.move_on_after(timeout_s):
            await self._event.wait()
        is_set = self._event.is_set()
        if is_set:
            self._event = anyio.Event()
        return is_set


class Signals:
    """One signal per kind of work, and `peers` for work to announce to the other daemons."""

    def __init__(self) -> None:
        self.of = {work: Signal() for work in Work}
        self.peers = Signal()
        self.unannounced = Work.NONE

    def set(self, work: Work) -> None:
        """Wake the duties for these kinds of work, here and in the other daemons."""
        self.set_local(work)
        if work:
            self.unannounced |= work
            self.peers.set()

    def set_local(self, work: Work) -> None:
        for kind, signal in self.of.items():
            if kind in work:
                signal.set()


async def notify(database: Database, work: Work) -> None:
    """Wake the duties of all daemons of this database. Raises UnavailableError."""
    await database.run(Db.execute, "SELECT pg_notify($1, $2)", CHANNEL, ",".join(kind.name or "" for kind in work))


def parse_payload(payload: str) -> Work:
    """The kinds of work in a notification; unknown names, of a newer version, are ignored."""
    kinds = {kind.name: kind for kind in Work}
    work = Work.NONE
    for name in payload.split(","):
        work |= kinds.get(name, Work.NONE)
    return work


async def listen(dsn: str, signals: Signals, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Set the signals for each notification, for ever. After a reconnect all signals are set: notifications may be missed."""
    task_status.started()
    while True:
        try:
            await _listen_once(dsn, signals)
        except (*AWAY, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            log.debug("listener_lost", error=describe(error))
        await anyio.sleep(RECONNECT_S)


async def _listen_once(dsn: str, signals: Signals) -> None:
    settings = {**SERVER_SETTINGS, "application_name": "tidegate listener"}
    connection = await connect(dsn, timeout=5, command_timeout=5, server_settings=settings)
    try:
        await connection.add_listener(CHANNEL, lambda *notification: signals.set_local(parse_payload(_payload(notification))))
        signals.set_local(~Work.NONE)
        while True:
            await anyio.sleep(CHECK_EVERY_S)
            await connection.execute("SELECT 1")
    finally:
        connection.terminate()


def _payload(notification: Sequence[object]) -> str:
    """asyncpg calls listeners with (connection, pid, channel, payload)."""
    return str(notification[3])


async def notify_peers(
    database: Database, held_leases: HeldLeases, signals: Signals, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    """Announce the work this daemon made, at most every `NOTIFY_EVERY_S`; never while it is the only daemon."""
    task_status.started()
    while True:
        await signals.peers.wait(CHECK_EVERY_S)
        work, signals.unannounced = signals.unannounced, Work.NONE
        if work and not held_leases.is_only_daemon:
            with suppress(UnavailableError):
                await notify(database, work)
        await anyio.sleep(NOTIFY_EVERY_S)
