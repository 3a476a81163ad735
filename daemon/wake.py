"""Wake-ups: in this process at once after a commit, in other daemons by a coalesced NOTIFY.

Hints only: every duty also looks by itself.
"""

from collections.abc import Sequence
from contextlib import suppress

import anyio
import asyncpg
import structlog

from tidegate.daemon.leases import Holdings
from tidegate.daemon.postgres.database import AWAY, SERVER_SETTINGS, Database, describe
from tidegate.daemon.postgres.primary import connect
from tidegate.daemon.work import Work
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db

log = structlog.get_logger()

CHANNEL = "tidegate"
NOTIFY_EVERY_S = 0.05
CHECK_EVERY_S = 5.0
RECONNECT_S = 2.0


class Bell:
    """Rings once or many times; whoever waits hears it once, also when it rang before."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether it rang; False after `timeout_s`."""
        with anyio.move_on_after(timeout_s):
            await self._event.wait()
        rang = self._event.is_set()
        if rang:
            self._event = anyio.Event()
        return rang


class Bells:
    """One bell for each kind of work, and one for what the other daemons should hear."""

    def __init__(self) -> None:
        self.of = {work: Bell() for work in Work}
        self.abroad = Bell()
        self.unsaid = Work.NONE

    def ring(self, work: Work) -> None:
        """There is work of these kinds, made here."""
        self.ring_here(work)
        if work:
            self.unsaid |= work
            self.abroad.ring()

    def ring_here(self, work: Work) -> None:
        for kind, bell in self.of.items():
            if kind in work:
                bell.ring()


async def notify(database: Database, work: Work) -> None:
    """Tell all daemons of this database. Raises UnavailableError."""

    await database.run(Db.execute, "SELECT pg_notify($1, $2)", CHANNEL, ",".join(kind.name or "" for kind in work))


def heard(payload: str) -> Work:
    """The kinds of work a notification speaks of; what is not understood is passed over."""
    kinds = {kind.name: kind for kind in Work}
    work = Work.NONE
    for name in payload.split(","):
        work |= kinds.get(name, Work.NONE)
    return work


async def listen(dsn: str, bells: Bells) -> None:
    """Ring when another daemon says so. A lost connection is made anew; whatever was missed meanwhile is rung for."""
    while True:
        try:
            await _listen_once(dsn, bells)
        except (*AWAY, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
            log.debug("listener_lost", error=describe(error))
        await anyio.sleep(RECONNECT_S)


async def _listen_once(dsn: str, bells: Bells) -> None:
    settings = {**SERVER_SETTINGS, "application_name": "tidegate listener"}
    connection = await connect(dsn, timeout=5, command_timeout=5, server_settings=settings)
    try:
        await connection.add_listener(CHANNEL, lambda *said: bells.ring_here(heard(_payload(said))))
        bells.ring_here(~Work.NONE)
        while True:
            await anyio.sleep(CHECK_EVERY_S)
            await connection.execute("SELECT 1")
    finally:
        connection.terminate()


def _payload(said: Sequence[object]) -> str:
    """asyncpg calls with (connection, pid, channel, payload)."""
    return str(said[3])


async def tell_others(database: Database, bells: Bells, holdings: Holdings) -> None:
    """Pass on what this daemon made, a few times a second at most, and not at all while it is the only one."""
    while True:
        await bells.abroad.wait(CHECK_EVERY_S)
        work, bells.unsaid = bells.unsaid, Work.NONE
        if work and not holdings.alone:
            with suppress(UnavailableError):
                await notify(database, work)
        await anyio.sleep(NOTIFY_EVERY_S)
