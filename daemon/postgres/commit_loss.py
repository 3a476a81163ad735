"""Notices that commits which were acknowledged are not there, before anything else is done on the server that lacks them."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import structlog

from tidegate.daemon.postgres.commit_receipts import Kept, Receipt, Receipts, former, missing
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db, Memory
from tidegate.schemas.queries.losses import Mark, Place

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database
    from tidegate.schemas.queries.db import Connected

log = structlog.get_logger()

UNSURE_S = 60.0
"""So long after a server has taken over, another daemon may still find that it lacks commits."""

KEPT_S = 30 * 86_400.0
"""How long it is known what daemons that are no more had been acknowledged."""


class Lookout:
    """Looks at every new connection of a daemon, which may lead to another server than those before.

    `takeovers` counts how often it did: whatever was known of the one before may not be true any more.
    """

    def __init__(self, receipts: Receipts, writer: str) -> None:
        self.receipts = receipts
        self._writer = writer
        self.takeovers = 0
        self._timeline: str | None = None
        self._changed_at = float("-inf")
        self._one_at_a_time = anyio.Lock()

    @property
    def daemon(self) -> UUID:
        return self.receipts.daemon

    @property
    def unsure(self) -> bool:
        """Whether another server has taken over a moment ago."""
        return anyio.current_time() < self._changed_at + UNSURE_S

    async def look(self, connection: "Connected") -> None:
        """Raises UnavailableError for a standby, which may lack anything, and takes nothing."""
        async with self._one_at_a_time:
            place = await losses.place(connection)
            if place.timeline is None:
                raise UnavailableError("Postgres is a standby there, and takes no writes", server="Postgres")
            self._stay(place)
            held = self.receipts.held
            there = await losses.marks(connection, self.receipts.daemon) if held else {}
            # Only what had been acknowledged before: other connections go on meanwhile.
            if lost := missing(held, there):
                await tell(connection, place, lost, there, self._writer)
                self.receipts.forget()
                self.takeovers += 1

    def _stay(self, place: Place) -> None:
        if self._timeline not in (None, place.timeline):
            self._changed_at = anyio.current_time()
            self.takeovers += 1
            log.warning("server_took_over", timeline=place.timeline, before=self._timeline)
        self._timeline = place.timeline
        if self.receipts.database != place.database:
            self.receipts.forget()
            self.receipts.database = place.database


async def tell(connection: "Connected", place: Place, lost: Sequence[Receipt], there: Mapping[int, Mark], writer: str) -> None:
    """Record it and say it."""
    since, until = _since(place, [mark.at for mark in there.values()], lost), max(receipt.at for receipt in lost)
    async with connection.transaction():
        await losses.record(Db(connection, Memory(), until), place.timeline or "", since, until, writer)
    log.error("commits_lost", since=str(since), until=str(until), timeline=place.timeline, hint="tidegate losses list")


def _since(place: Place, there: Sequence[datetime], lost: Sequence[Receipt]) -> datetime:
    """When the last commit was made that is there, as far as that is known: what was lost was committed after it."""
    first = min(receipt.at for receipt in lost)
    until = max(receipt.at for receipt in lost)
    if place.inherited_at is not None and place.inherited_at <= until:
        return place.inherited_at
    return min(max(there, default=first), first)


async def account(database: "Database", root: Path, writer: str) -> None:
    """Look for what was acknowledged to daemons of this host that are no more. Raises UnavailableError."""
    with closing(former(root)) as left:
        for daemon, kept, path in left:
            if kept is not None:
                await database.run(_account, daemon=daemon, kept=kept, writer=writer)
            path.unlink(missing_ok=True)  # before the marks: without them all of it would be missing
            await database.ask(losses.forget_daemon, daemon=daemon)


async def _account(db: Db, *, daemon: UUID, kept: Kept, writer: str) -> None:
    place = await losses.place(db.connection)
    is_known = kept.database == place.database and all((db.now - it.at).total_seconds() < KEPT_S / 2 for it in kept.receipts)
    there = await losses.marks(db.connection, daemon)
    if is_known and (lost := missing(kept.receipts, there)):
        await tell(db.connection, place, lost, there, writer)


async def forget_spent(database: "Database") -> None:
    """Drop the marks that vouch for nothing that others do not vouch for. Raises UnavailableError."""
    if database.lookout is None:
        return
    receipts = database.lookout.receipts
    if spent := tuple(receipts.spent):
        await database.ask(losses.forget_spent, daemon=receipts.daemon, numbers=spent)
        receipts.spent.difference_update(spent)
