"""The event ledger's housekeeping: each month has partitions of its own, which go when the retention has passed.

Any daemon may do it, at any time, and several at once: each step is a transaction that finds out under its locks whether there is
anything to do. Nothing depends on its being done in time: until a month has its partitions, events go to the month before.
"""

import random
from datetime import datetime, timedelta

import anyio
import asyncpg
import structlog

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.queries import ledger
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.ledger import Retired
from tidegate.schemas.timetable.month import end_of, month_of

log = structlog.get_logger()

MOST_STAYING = 100_000
"""A month of which more than so many events must stay is not worth thinning."""

AT_ONCE = 10_000
TRIES = 5
PAUSE_S = 1.0
BUSY = (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError)
REFUSED = (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedTableError, asyncpg.DuplicateTableError)
"""What only an operator can mend: who owns the tables, or that somebody touched the partitions."""


class _BusyError(Exception):
    """Somebody holds a lock that is needed for a moment, or it takes too long."""


async def keep(database: Database, days: int) -> None:
    """Go on to the month that it is, and let go what came more than so many days ago. Raises UnavailableError."""
    try:
        await turn(database)
        await retire(database, days)
    except REFUSED as error:
        log.warning("ledger_not_kept", error=str(error))
    await forget_notes(database, days)


async def turn(database: Database) -> None:
    """Partitions for this month; and once they are there, ids of it.

    They are not made long before they fill: Postgres would plan for a table that it has found empty.
    """
    month = month_of(await database.ask(_now))
    made = await database.run(ledger.make, month=month)
    begun = await database.run(ledger.begin, month=month)
    if made or begun:
        log.info("ledger_month_begun", month=month)


async def retire(database: Database, days: int) -> None:
    """Drop the months that ended more than so many days ago, oldest first."""
    cutoff = await database.ask(_now) - timedelta(days=days)
    for month in await database.ask(ledger.months):
        if end_of(month) <= cutoff:
            await _retire(database, month, cutoff)


async def _retire(database: Database, month: int, cutoff: datetime) -> None:
    for _ in range(TRIES):
        try:
            retired = await database.run(_retire_unless_busy, month, cutoff)
        except _BusyError:
            await anyio.sleep(random.uniform(0, PAUSE_S))  # noqa: S311, not a secret
        else:
            _tell(month, retired)
            return
    log.info("ledger_month_busy", month=month)


async def _retire_unless_busy(db: Db, month: int, cutoff: datetime) -> Retired | None:
    """Raises _BusyError instead of the errors that `Database.run` takes for an outage of Postgres."""
    try:
        return await ledger.retire(db, month=month, cutoff=cutoff, most=MOST_STAYING)
    except BUSY as error:
        raise _BusyError from error


def _tell(month: int, retired: Retired | None) -> None:
    if retired is None:
        return
    if retired.is_now == "whole":
        log.warning("ledger_month_waits", month=month, events=f"more than {MOST_STAYING:,} wait for DAGs")
    else:
        log.info("ledger_month_retired", month=month, is_now=retired.is_now, staying=retired.staying)


async def forget_notes(database: Database, days: int) -> None:
    """Drop what was noted about schedules and has not come up for so many days."""
    while await database.ask(_forget_notes, days) == AT_ONCE:
        pass


async def _forget_notes(db: Db, days: int) -> int:
    return await ledger.forget_notes(db, db.now - timedelta(days=days), AT_ONCE)


async def _now(db: Db) -> datetime:
    return db.now
