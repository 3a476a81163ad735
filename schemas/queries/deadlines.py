"""Deadlines of runs and tasks: written with their run, then met or missed."""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import listing
from tidegate.schemas.view import DeadlineView

_SQL = load("deadlines")


class DeadlineRow(msgspec.Struct, frozen=True):
    """A line of the list of deadlines."""

    id: int
    dag_id: str
    run_id: str
    task_id: str | None
    name: str
    state: Annotated[str, listing(("pending", "met", "missed"))]
    due_at: datetime
    met_at: datetime | None
    missed_at: datetime | None


MOST_MISSED = 1000
"""The missed deadlines of which each DAG and deadline is listed once."""


class MissedOfDag(msgspec.Struct, frozen=True):
    """A deadline that runs of a DAG missed, or a task of them: how many runs, and the last one with its due time."""

    dag_id: str
    task_id: str | None
    name: str
    runs: int
    run_id: str
    due_at: datetime


async def lock_runs(db: Db, ids: Collection[int]) -> list[int]:
    """Lock the runs of these deadlines, and first the DAGs of queued ones, which start under the lock of their DAG alone.

    Runs and DAGs with another lock are skipped; the clock visits their deadlines again.
    """
    dag_ids = [row[0] for row in await db.fetch(_SQL["lock_dags"], list(ids))]
    return [row[0] for row in await db.fetch(_SQL["lock_runs"], list(ids), dag_ids)]


async def lock_due(db: Db, ids: Collection[int], dag_run_ids: Collection[int]) -> list[DeadlineView]:
    """Lock the open deadlines of these that have passed, in locked runs, by time. Deadlines with another lock are skipped."""
    return [DeadlineView(*row) for row in await db.fetch(_SQL["lock_due"], list(ids), list(dag_run_ids), db.now)]


async def list_deadlines(
    db: Db,
    *,
    dag_id: str | None = None,
    run_id: str | None = None,
    missed: bool = False,
    before: int | None = None,
    limit: int = 100,
) -> list[DeadlineRow]:
    """The deadlines, newest first; those before one."""
    ids = None
    if dag_id is not None and run_id is None:
        ids = await _of_dag(db, dag_id, missed=missed, before=before, limit=limit)
    return [DeadlineRow(*row) for row in await db.fetch(_SQL["list_deadlines"], dag_id, run_id, missed, limit, before, ids)]


async def missed_last(db: Db, within_s: float, limit: int) -> list[MissedOfDag]:
    """The deadlines that were missed within a time, the last first, each once for all runs of its DAG."""
    return [MissedOfDag(*row) for row in await db.fetch(_SQL["missed"], within_s, limit, MOST_MISSED)]


async def _of_dag(db: Db, dag_id: str, *, missed: bool, before: int | None, limit: int) -> list[int]:
    """The ids of the newest deadlines of a DAG. All its runs are read only where the last deadlines of all DAGs have too few."""
    found = await db.fetch(_SQL["last_of_dag"], dag_id, missed, limit, before)
    if len(found) < limit:
        found = await db.fetch(_SQL["of_dag"], dag_id, missed, limit, before)
    return [row[0] for row in found]
