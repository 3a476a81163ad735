"""Detects that acknowledged commits are missing, before the first transaction on the server without them.

Only the markers decide, not clocks, timelines or privileges: so a disk that drops writes and a restored copy are detected too.
The timeline distinguishes one loss from the next.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import anyio

from tidegate.daemon.postgres.commit_receipts import CommitReceipts, Receipt, missing
from tidegate.daemon.postgres.deferred_log import log
from tidegate.schemas.error import POSTGRES, UnavailableError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.losses import Mark, ServerIdentity
from tidegate.schemas.queries.memory import Memory

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected


UNSURE_S = 60.0
"""The time after a takeover in which another daemon may still detect a loss."""


class CommitLossDetector:
    """Compares the commit receipts of a daemon with the commit markers on the server of each new connection.

    `takeovers` counts changes of the server. State read before a takeover may be lost.
    """

    def __init__(self, receipts: CommitReceipts, writer: str) -> None:
        self.receipts = receipts
        self._writer = writer
        self.takeovers = 0
        self._timeline: str | None = None
        self._changed_at = float("-inf")
        self._lock = anyio.Lock()

    @property
    def unsure(self) -> bool:
        """Whether the last takeover is less than `UNSURE_S` ago."""
        return anyio.current_time() < self._changed_at + UNSURE_S

    async def check(self, connection: "Connected") -> None:
        """Record a loss, if there is one. Raises UnavailableError for a standby: it rejects writes and may lag."""
        async with self._lock:
            place = await losses.server_identity(connection)
            if place.timeline is None:
                raise UnavailableError("the Postgres server is a standby, which takes no writes", server=POSTGRES)
            self._note_server(place)
            # Read before the markers: other connections commit meanwhile, and their receipts are not to be compared.
            receipts = self.receipts.newest
            least = min((receipt.number for receipt in receipts), default=0)
            proofs = await losses.marks(connection, self.receipts.daemon, least) if receipts else {}
            if lost := missing(receipts, proofs):
                markers = await losses.marks(connection, self.receipts.daemon)
                await record_loss(connection, place, lost, markers, self._writer)
                self.receipts.clear()
                self.takeovers += 1

    def _note_server(self, place: ServerIdentity) -> None:
        if self._timeline not in (None, place.timeline):
            self._changed_at = anyio.current_time()
            self.takeovers += 1
            log.warning("server_took_over", timeline=place.timeline, before=self._timeline)
        self._timeline = place.timeline
        if self.receipts.database != place.database:
            self.receipts.clear()
            self.receipts.database = place.database


async def record_loss(
    connection: "Connected", place: ServerIdentity, lost: Sequence[Receipt], markers: Mapping[int, Mark], writer: str
) -> None:
    """Record the time range of the lost commits, and log it."""
    since, until = _since(place, [marker.at for marker in markers.values()], lost), max(receipt.at for receipt in lost)
    async with connection.transaction():
        await losses.record(Db(connection, Memory(), until), place.timeline or "", since, until, writer)
    log.error("commits_lost", since=str(since), until=str(until), timeline=place.timeline, hint="tidegate losses list")


def _since(place: ServerIdentity, present: Sequence[datetime], lost: Sequence[Receipt]) -> datetime:
    """The time of the last commit known to be on the server; all lost commits are later."""
    first = min(receipt.at for receipt in lost)
    until = max(receipt.at for receipt in lost)
    if place.inherited_at is not None and place.inherited_at <= until:
        return place.inherited_at
    return min(max(present, default=first), first)
