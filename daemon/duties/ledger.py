"""Maintenance of the event ledger: creates the partitions of each month and drops them after the retention.

Several daemons may run it at once: each step is a transaction that checks under its locks whether it has work. A late run is
harmless: without partitions of its own a month writes to those of the month before.
"""

import random
from datetime import datetime, timedelta

import anyio
import asyncpg
import structlog

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import files, ledger
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.ledger import Retired
from tidegate.schemas.timetable.month import end_of, month_of

log = structlog.get_logger()

MAX_PENDING = 100_000
"""A month with more pending events is retained as a whole."""

MAX_BATCH = 10_000
TRIES = 5
PAUSE_S = 1.0
BUSY = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)
REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedTableError, asyncpg.DuplicateTableError)
"""Errors that an operator has to fix: missing ownership of the tables, or partitions changed by hand."""


class _BusyError(Exception):
    """A lock was not available in time, or the statement took too long."""


async def maintain_ledger(database: Database, days: int) -> None:
    """Begin the current month and retire events older than `days`. Raises UnavailableError."""
    try:
        await begin_month(database)
        await retire(database, days)
    except REFUSED as error:
        log.warning("ledger_not_maintained", error=str(error), hint="make the daemon's role the owner of dataset_event")
    await delete_notes(database, days)
    await database.run(files.delete_unused_modules)


async def begin_month(database: Database) -> None:
    """Create the partitions of the current month, then switch to its ids.

    They are not created earlier: Postgres would plan for tables that its statistics show as empty.
    """
    month = month_of(await database.autocommit(_now))
    made = await database.run(ledger.make, month=month)
    begun = await database.run(ledger.begin, month=month)
    if made or begun:
        log.info("ledger_month_begun", month=month)


async def retire(database: Database, days: int) -> None:
    """Drop the months that ended more than `days` ago, the oldest first."""
    cutoff = await database.autocommit(_now) - timedelta(days=days)
    for month in await database.autocommit(ledger.months):
        if end_of(month) <= cutoff:
            await _retire(database, month, cutoff)


async def _retire(database: Database, month: int, cutoff: datetime) -> None:
    for _ in range(TRIES):
        try:
            retired = await database.run(_retire_unless_busy, month, cutoff)
        except _BusyError:
            await anyio.sleep(random.uniform(0, PAUSE_S))  # noqa: S311, not a secret
        else:
            _log_retired(month, retired)
            return
    log.info("ledger_month_busy", month=month)


async def _retire_unless_busy(db: Db, month: int, cutoff: datetime) -> Retired | None:
    """Raises _BusyError for errors that `Database.run` would report as an outage of Postgres."""
    try:
        return await ledger.retire(db, month=month, cutoff=cutoff, most=MAX_PENDING)
    except BUSY as error:
        raise _BusyError from error


def _log_retired(month: int, retired: Retired | None) -> None:
    if retired is None:
        return
    if retired.is_now == "whole":
        log.warning("ledger_month_waits", month=month, events=f"more than {MAX_PENDING:,} wait for DAGs")
    else:
        log.info("ledger_month_retired", month=month, is_now=retired.is_now, staying=retired.staying)


async def delete_notes(database: Database, days: int) -> None:
    """Delete the schedule notes that were not renewed for `days`."""
    while await database.autocommit(_delete_notes, days) == MAX_BATCH:
        pass


async def _delete_notes(db: Db, days: int) -> int:
    return await ledger.forget_notes(db, db.now - timedelta(days=days), MAX_BATCH)


async def _now(db: Db) -> datetime:
    return db.now
