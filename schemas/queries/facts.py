"""Reads the facts that explanations start from. Nothing is locked."""

from datetime import datetime

import msgspec

from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.explain.facts import AttemptFacts, DagStatus, InactiveDag, OccupyingTask, OpenAttempt, RunFacts, TaskRow
from tidegate.schemas.graph import label
from tidegate.schemas.queries import backfills, dags, pending, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import DagView, RunView, TaskKey

_SQL = load("facts")

MOST_NAMED = 5
"""Occupying tasks that are named of a pool, a run or a task."""

FIRST_QUEUED = 3
"""Queued runs that a view has. As many sources of runs take turns: each that can start a run does so before the last of these."""


class DiscardRow(msgspec.Struct, frozen=True):
    """The number of a DAG's last discarded events that have this reason."""

    reason: str
    events: int
    last_at: datetime


async def dag_view(db: Db, dag_id: str) -> DagView:
    """The view of an existing DAG, for a decision with everything read but most of its queue. Its run ids are not real.

    Its pending events have their extra only if the condition depends on it.
    """
    (row,) = await db.fetch(_SQL["dag"], dag_id)
    graph = (await versions.graphs(db, {row["version_id"]}))[row["version_id"]]
    locked = dags.locked_dag(graph, *row)
    active = (await dags.activity_from(db, {dag_id: 0}))[dag_id]
    dates = await dags.run_dates(db, {dag_id: dags.last_date(locked)} if graph.timetable else {})
    events, rest = await pending.of_dag(db, dag_id, with_details=graph.inspects_events)
    return dags.dag_view(
        locked,
        active,
        run_dates=dates.get(dag_id, frozenset()),
        timed_run_ids=(0,),
        event_run_ids=(0,),
        queued_runs=(await dags.first_queued(db, {dag_id: FIRST_QUEUED}))[dag_id] if active.queued else (),
        pending=events,
        more_pending=rest.events if rest else 0,
        newest_at=rest.newest_at if rest else None,
    )


async def dag_status(db: Db, dag_id: str) -> DagStatus:
    """The status of an existing DAG."""
    (row,) = await db.fetch(_SQL["dag_status"], dag_id)
    return DagStatus(*row)


async def discards(db: Db, dag_id: str) -> list[DiscardRow]:
    """The reasons of the last discarded events, the latest first."""
    return [DiscardRow(*row) for row in await db.fetch(_SQL["discards"], dag_id)]


async def run_facts(db: Db, dag_id: str, run_id: str) -> RunFacts:
    """The facts of an existing run."""
    (row,) = await db.fetch(_SQL["run_facts"], dag_id, run_id, db.now)
    columns = len(RunView.__struct_fields__)
    run = run_view(row[:columns])
    capacities = (
        await backfills.capacities(db, [run.backfill_id], run.pool or DEFAULT_POOL) if run.backfill_id is not None else {}
    )
    inactive = [InactiveDag(*row) for row in await db.fetch(_SQL["inactive_dag"], run.backfill_id, dag_id)] if capacities else []
    return msgspec.structs.replace(
        RunFacts(run, *row[columns:]),
        backfill=capacities.get(run.backfill_id or 0),
        inactive=inactive[0] if inactive else None,
    )


async def task_row(db: Db, key: TaskKey) -> TaskRow | None:
    """The row of a task instance; None before the run has started."""
    rows = await db.fetch(_SQL["task_row"], *key)
    return TaskRow(*rows[0]) if rows else None


async def queue_before(db: Db, key: TaskKey, limit: int) -> list[TaskKey]:
    """The first `limit` tasks ahead of a task in the queue of its pool, in queue order."""
    return [(row[0], row[1]) for row in await db.fetch(_SQL["queue_before"], *key, limit)]


async def occupying(
    db: Db,
    *,
    pool: str | None = None,
    dag_run_id: int | None = None,
    limited: tuple[str, str] | None = None,
    limit: int = MOST_NAMED,
) -> list[OccupyingTask]:
    """The first ones by start, running before queued ones: of a pool, of a run, or of a (DAG, task) with limits of its own."""
    rows = await db.fetch(_SQL["occupying"], pool, dag_run_id, *(limited or (None, None)), limit)
    return [_occupying(*row) for row in rows]


async def attempt(db: Db, key: TaskKey) -> AttemptFacts | None:
    """The newest attempt of a task; None before the task was admitted."""
    rows = await db.fetch(_SQL["attempt"], *key)
    return AttemptFacts(*rows[0]) if rows else None


async def open_attempts(db: Db, dag_run_id: int) -> list[OpenAttempt]:
    """The open attempts of the active tasks of a run."""
    return [OpenAttempt(*row) for row in await db.fetch(_SQL["open_attempts"], dag_run_id)]


async def scheduled_with_open_attempt(db: Db, dag_run_id: int) -> frozenset[int]:
    """The indices of tasks that wait for slots while an earlier attempt is open."""
    return frozenset(row[0] for row in await db.fetch(_SQL["scheduled_with_open_attempt"], dag_run_id))


def _occupying(dag_id: str, run_id: str, task_id: str, index: int, slots: int, since: datetime | None) -> OccupyingTask:
    return OccupyingTask(dag_id, run_id, label(task_id, index), slots, since)
