"""Backfills and their dates as pages show them."""

from datetime import datetime

import msgspec

from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import DateState

_SQL = load("backfill_pages")


class BackfillRow(BackfillView, frozen=True, kw_only=True):
    """A backfill with its user, its times, and counts of its runs and of the tasks of these.

    `waiting` ones of the `running` runs wait for the previous run. The tasks of `unstarted` runs are not known yet. `dag_state`:
    why its DAG starts no run.
    """

    version: int
    relative_fileloc: str
    submitted_at: datetime
    submitted_by: str
    updated_at: datetime
    scheduled_date: datetime | None
    delete_date: datetime | None
    queued: int
    running: int
    waiting: int
    unstarted: int
    tasks: int
    tasks_succeeded: int
    tasks_skipped: int
    tasks_failed: int
    dag_state: str


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG of a cascade, and what became of its dates. `waiting` ones are to run again, `open` ones have not ended."""

    dag_id: str
    dates: int = 0
    waiting: int = 0
    open: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0


class DateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A planned date of a backfill, with its run, or the reason why it has none."""

    ordinal: int
    logical_date: datetime
    state: DateState
    run_id: str | None
    run_state: str | None
    reason: str


async def list_backfills(
    db: Db,
    *,
    backfill_id: int | None = None,
    dag_id: str | None = None,
    state: str | None = None,
    deleted: bool = False,
    before: int | None = None,
    limit: int = 1,
) -> list[BackfillRow]:
    """Backfills, newest first; those before one."""
    rows = await db.fetch(_SQL["list"], backfill_id, dag_id, state, deleted, limit, before)
    return [msgspec.convert(dict(row), BackfillRow) for row in rows]


async def list_dates(db: Db, backfill_id: int, state: str | None, after: int, limit: int) -> list[DateRow]:
    """The planned dates of a backfill with an ordinal above `after`."""
    return [msgspec.convert(dict(row), DateRow) for row in await db.fetch(_SQL["dates"], backfill_id, state, after, limit)]


async def list_stages(db: Db, backfill_id: int) -> dict[str, StageRow]:
    """By DAG; DAGs without a date are left out."""
    found = [msgspec.convert(dict(row), StageRow) for row in await db.fetch(_SQL["stages"], backfill_id)]
    return {row.dag_id: row for row in found}
