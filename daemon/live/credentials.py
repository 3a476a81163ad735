"""Ends the streams of tokens and sessions that were revoked or have expired."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from tidegate.daemon.live.containment import contained
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.outage import Retry
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import POSTGRES, UnavailableError
from tidegate.schemas.queries import credentials

CHECK_S = 2.0
ANSWER_S = 3.0
"""A server that is stopped or cut off keeps its connections open. Pages say after this time that it does not answer."""

SILENT = f"Postgres has not answered for {ANSWER_S:g} s"
INVALID = "the token or the session has ended: log in again"


async def watch(hub: Hub, database: Database) -> None:
    """Check the credentials of all open streams with one query, for ever. While Postgres is away, the streams say so."""
    retry, check = Retry(hub.outages, ends_outages=True), _Check(lambda: end_invalid(hub, database))
    try:
        while True:
            await anyio.sleep(CHECK_S)
            await retry.once(contained, "credentials_not_checked", "its check of tokens and sessions", check.answered)
    finally:
        check.cancel()


class _Check:
    """Work that is waited for for a bounded time. A transaction cannot be cancelled: it goes on, and no other one begins."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running: asyncio.Future[None] | None = None

    async def answered(self) -> None:
        """Raises UnavailableError for a server that does not answer, and what the work raises."""
        running = self._running = self._running or asyncio.ensure_future(self._work())
        if not (await asyncio.wait([running], timeout=ANSWER_S))[0]:
            raise UnavailableError(SILENT, server=POSTGRES)
        self._running = None
        running.result()

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()


async def end_invalid(hub: Hub, database: Database) -> None:
    """Raises UnavailableError. Without a stream nothing is asked, but in an outage, whose end is an answer."""
    named = {stream.owner.credential_id for stream in hub}
    if named or hub.outages.away:
        valid = await database.autocommit(credentials.valid, list(named))
        hub.end(INVALID, of=lambda stream: stream.owner.credential_id in named - valid)
