"""The months of the event ledger: partitions by the id of the event, each dropped when its retention has passed.

The partition key is the id and not a time, because every statement that reads an event has its id: it scans one partition, and
primary keys stay unique over all of them. `0001_schema.sql` has the functions and their locks.

A dropped month keeps the events that are pending or belong to an active run. If it kept all events, one forgotten DAG would grow
the ledger without bound; new ids for the events would break the references of the queue and the runs.
`dag_run.events` stays as the count of consumed events. `event_dedupe` is separate, because no partition key could keep it unique.
"""

from datetime import datetime

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.timetable.month import after

_SQL = load("ledger")


class Retired(msgspec.Struct, frozen=True):
    """The state of a month after an attempt to drop it (`whole`, `thinned` or `dropped`), and how many events must stay."""

    is_now: str
    staying: int


async def make(db: Db, month: int) -> bool:
    """Create the partitions of a month, unless they were created before. Returns whether it did."""
    return bool((await db.fetch(_SQL["make_month"], month, after(month)))[0][0])


async def begin(db: Db, month: int) -> bool:
    """Give ids of this month from now on, unless they are already of it. Its partitions must be committed."""
    return bool((await db.fetch(_SQL["begin_month"], month))[0][0])


async def months(db: Db) -> list[int]:
    """Months with events, oldest first."""
    return [row[0] for row in await db.fetch(_SQL["months"])]


async def retire(db: Db, month: int, cutoff: datetime, most: int) -> Retired | None:
    """Drop a month whose last event came before `cutoff`, but for up to `most` events that are pending or of active runs.

    None if the month has newer events or nothing changed. Fails instead of waiting for locks.
    """
    rows = await db.fetch(_SQL["retire_month"], month, after(month), cutoff, most)
    return Retired(*rows[0]) if rows else None


async def forget_notes(db: Db, before: datetime, limit: int) -> int:
    """Delete up to `limit` notes about schedules that were last repeated before `before`. Returns their number."""
    return int((await db.execute(_SQL["forget_notes"], before, limit)).rpartition(" ")[2])
