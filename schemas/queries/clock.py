"""Rows that are due, and the next due times. Every row belongs to a shard, and each shard to one daemon."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import FAR_FUTURE

_SQL = load("clock")

SHARDS = 16
"""As the schema divides DAGs and runs."""

DUE = {
    "end": _SQL["end"],
    "run": _SQL["run"],
    "attempt": _SQL["attempt"],
    "dag": _SQL["dag"],
    "deferred": _SQL["deferred"],
    "backfill": _SQL["backfill"],
    "retry": _SQL["retry"],
    "deadline": _SQL["deadline"],
}
"""The statement for each kind of due time."""

FIRST_DUE = "\nUNION ALL\n".join(f"SELECT '{kind}', due.at FROM (\n{due}\n) AS due" for kind, due in DUE.items())  # noqa: S608


async def next_due(db: Db, shards: Sequence[int]) -> dict[str, datetime]:
    """The earliest due time of each kind; kinds without one are left out."""
    return {row[0]: row[1] for row in await db.fetch(FIRST_DUE, shards, FAR_FUTURE, 1)}


async def due(db: Db, kind: str, shards: Sequence[int], limit: int) -> list[Sequence[Any]]:
    """The keys of due rows, the most overdue first: a `dag_id`, an id, or the `dag_run_id` and `task_index` of a retry."""
    return [tuple(row)[1:] for row in await db.fetch(DUE[kind], shards, db.now, limit)]
