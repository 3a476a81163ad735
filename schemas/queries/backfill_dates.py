"""The dates of backfills: their changes are in the `.sql` file, and here the backfills that count behind their runs."""

from collections.abc import Collection
from typing import NamedTuple

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("backfill_dates")


class LaggingRun(NamedTuple):
    """A run that ended, or was `reopened`, without a notification of its backfill."""

    backfill_id: int
    dag_run_id: int
    reopened: bool


async def lagging(db: Db) -> list[int]:
    """The backfills whose counters lag behind their runs."""
    return [row[0] for row in await db.fetch(_SQL["lagging"])]


async def lagging_runs(db: Db, ids: Collection[int]) -> tuple[LaggingRun, ...]:
    """The runs of these locked backfills that they do not count."""
    return tuple(LaggingRun(*row) for row in await db.fetch(_SQL["lagging_runs"], list(ids)))
