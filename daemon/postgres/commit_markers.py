"""Housekeeping of commit markers: checks those of ended daemons against their receipts, deletes replaced ones."""

from contextlib import closing
from pathlib import Path
from uuid import UUID

from tidegate.daemon.postgres.commit_loss import record_loss
from tidegate.daemon.postgres.commit_receipts import StoredReceipts, abandoned, missing
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import installation, losses
from tidegate.schemas.queries.db import Db

RETENTION_S = 30 * 86_400.0
"""The time for which the markers of an ended daemon are stored."""


async def check_ended_daemons(database: Database, root: Path, writer: str) -> None:
    """Detect lost commits of daemons that ran on this host and ended. Raises UnavailableError.

    Recent receipts of another installation stay for its daemons, which can share the spool.
    """
    with closing(abandoned(root)) as files:
        for daemon, stored, path in files:
            if stored is not None and not await database.run(_check, daemon, stored, writer):
                continue
            path.unlink(missing_ok=True)  # before its markers: without them every receipt would count as lost
            await database.autocommit(losses.forget_daemon, daemon)


async def _check(db: Db, daemon: UUID, stored: StoredReceipts, writer: str) -> bool:
    """Whether no daemon needs the receipts any more. Those of before a restore that was settled prove nothing."""
    place, here = await losses.server_identity(db.connection), await installation.read(db.connection)
    is_recent = all((db.now - receipt.at).total_seconds() < RETENTION_S / 2 for receipt in stored.receipts)
    markers = await losses.marks(db.connection, daemon)
    if not (is_recent and (lost := missing(stored.receipts, markers))):
        return True
    if here is None or stored.database != here.epoch:
        return here is not None and stored.database.partition(installation.EPOCH)[0] == here.identity
    await record_loss(db.connection, place, lost, markers, writer)
    return True


async def delete_spent(database: Database) -> None:
    """Delete the markers of this daemon that later ones replace. Raises UnavailableError."""
    if database.commit_loss is None:
        return
    receipts = database.commit_loss.receipts
    if spent := tuple(receipts.spent):
        await database.autocommit(losses.forget_spent, receipts.daemon, spent)
        receipts.spent.difference_update(spent)
