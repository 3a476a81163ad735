"""Detects that acknowledged commits are missing, before the first transaction on the server without them.

Only the markers decide, not clocks, timelines or privileges: so a disk that drops writes and a restored copy are detected too.
The timeline distinguishes one loss from the next.

A restored database is held, and no daemon works with it: a copy in another home, and one that lacks more commits than a standby.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import anyio

from tidegate.daemon.postgres.commit_receipts import CommitReceipts, Receipt, missing
from tidegate.daemon.postgres.deferred_log import log
from tidegate.schemas.error import POSTGRES, UnavailableError
from tidegate.schemas.queries import installation, losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.installation import Installation
from tidegate.schemas.queries.losses import Mark, ServerIdentity
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.text import utc

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected


UNSURE_S = 60.0
"""The time after a takeover in which another daemon may still detect a loss."""

RESTORED_S = 300.0
"""A standby that is promoted lacks seconds. What lacks the commits of more time than this is a restored backup."""

LACKS = "the database lacks the commits of {} to {} that daemons made: it was restored, or a standby was far behind"
HELD = "the database is held since {}: {}; `tidegate restore check` shows what it lacks, `tidegate restore settle` releases it"
ANOTHER = "the database is another one than when this daemon started; restart the daemon to work with it"


class CommitLossDetector:
    """Compares the commit receipts of a daemon with the commit markers on the server of each new connection.

    `takeovers` counts changes of the server. State read before a takeover may be lost. `installation` is that of the database at
    the last connection, and `newest_commit` the newest commit that it had at the first one.
    """

    def __init__(self, receipts: CommitReceipts, writer: str) -> None:
        self.receipts = receipts
        self._writer = writer
        self.takeovers = 0
        self.installation: Installation | None = None
        self.newest_commit: datetime | None = None
        self._timeline: str | None = None
        self._changed_at = float("-inf")
        self._lock = anyio.Lock()

    @property
    def unsure(self) -> bool:
        """Whether the last takeover is less than `UNSURE_S` ago."""
        return anyio.current_time() < self._changed_at + UNSURE_S

    async def check(self, connection: "Connected") -> None:
        """Record a loss, if there is one.

        Raises UnavailableError for a standby, which rejects writes and may lag; for a database that is held; and for that of
        another installation than before.
        """
        async with self._lock:
            place = await losses.server_identity(connection)
            if place.timeline is None:
                raise UnavailableError("the Postgres server is a standby, which takes no writes", server=POSTGRES)
            self._note_server(place)
            await self._recognize(connection, place)
            await self._compare(connection, place)
            await self._refuse_held(connection)

    def _note_server(self, place: ServerIdentity) -> None:
        if self._timeline not in (None, place.timeline):
            self._changed_at = anyio.current_time()
            self.takeovers += 1
            log.warning("server_took_over", timeline=place.timeline, before=self._timeline)
        self._timeline = place.timeline

    async def _recognize(self, connection: "Connected", place: ServerIdentity) -> None:
        """Read which installation the database belongs to, or give it its first identity; hold a restored one."""
        found = await installation.read(connection)
        if self.installation is not None and (found is None or found.identity != self.installation.identity):
            raise UnavailableError(ANOTHER, server=POSTGRES)
        if found is not None and not found.home:
            await installation.settle_in(connection, place.database)
            found = await installation.read(connection)
        elif found is not None and (reason := await installation.why_restored(connection, found, place.database)):
            await hold(connection, reason, await installation.newest_commit(connection))
            found = await installation.read(connection)
        if self.installation is None and found is not None:
            self.newest_commit = await installation.newest_commit(connection)
        self.installation = found
        self._keep_receipts_of(place.database if self.installation is None else self.installation.epoch)

    def _keep_receipts_of(self, database: str) -> None:
        if self.receipts.database != database:
            self.receipts.clear()
            self.receipts.database = database

    async def _compare(self, connection: "Connected", place: ServerIdentity) -> None:
        # Read before the markers: other connections commit meanwhile, and their receipts are not to be compared.
        receipts = self.receipts.newest
        least = min((receipt.number for receipt in receipts), default=0)
        proofs = await losses.marks(connection, self.receipts.daemon, least) if receipts else {}
        if lost := missing(receipts, proofs):
            markers = await losses.marks(connection, self.receipts.daemon)
            await record_loss(connection, place, lost, markers, self._writer)
            self.receipts.clear()
            self.takeovers += 1

    async def _refuse_held(self, connection: "Connected") -> None:
        found = self.installation and await installation.read(connection)
        if found and found.held_since:
            self.installation = None  # it may be released as another one
            raise UnavailableError(HELD.format(utc(found.held_since), found.hold_reason), server=POSTGRES)


async def hold(connection: "Connected", reason: str, lost_since: datetime | None) -> None:
    """Hold a database that was restored, or emptied, and lacks what came after `lost_since`."""
    async with connection.transaction():
        await installation.hold(connection, reason, lost_since)
    log.error("database_held", reason=reason, hint="tidegate restore check")


async def record_loss(
    connection: "Connected", place: ServerIdentity, lost: Sequence[Receipt], markers: Mapping[int, Mark], writer: str
) -> None:
    """Record the time range of the lost commits, and log it. A range that no standby lacks holds the database."""
    since, until = _since(place, [marker.at for marker in markers.values()], lost), max(receipt.at for receipt in lost)
    async with connection.transaction():
        await losses.record(Db(connection, Memory(), until), place.timeline or "", since, until, writer)
    log.error("commits_lost", since=str(since), until=str(until), timeline=place.timeline, hint="tidegate losses list")
    if (until - since).total_seconds() > RESTORED_S:
        await hold(connection, LACKS.format(utc(since), utc(until)), since)


def _since(place: ServerIdentity, present: Sequence[datetime], lost: Sequence[Receipt]) -> datetime:
    """The time of the last commit known to be on the server; all lost commits are later."""
    first = min(receipt.at for receipt in lost)
    until = max(receipt.at for receipt in lost)
    if place.inherited_at is not None and place.inherited_at <= until:
        return place.inherited_at
    return min(max(present, default=first), first)
