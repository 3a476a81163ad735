"""DAGs, locked for a decision, with the queued runs and pending events of their read plans."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import pending, versions
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.low_watermarks import Observation
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.read_plan import MAX_RUN_DATES, ReadPlan
from tidegate.schemas.text import cut
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagActivity, DagView, LockedDag, QueuedRun

_SQL = load("dags")

FIRST_DATE = datetime.min.replace(tzinfo=UTC)

MAX_NOTE_LENGTH = 400
"""The reason of a note is part of a key, beside the id of its DAG. Postgres refuses keys of more than 2,704 bytes."""


async def lock(db: Db, dag_ids: Collection[str], *, skips: bool = False) -> Mapping[str, LockedDag]:
    """Lock these DAGs, in the global order. Ids that do not exist are left out. `skips` as in `Db.lock`."""
    rows = await db.lock(_SQL["lock"], sorted(dag_ids), skips=skips) if dag_ids else []
    graphs = await versions.graphs(db, {version_id for _, version_id, *_ in rows})
    return {row[0]: locked_dag(graphs[row[1]], *row) for row in rows}


class UnreadDag(NamedTuple):
    """A locked DAG whose version was not read. A paused or stale one is inactive."""

    version_id: int
    is_inactive: bool
    is_stale: bool
    is_held: bool


async def lock_unread(db: Db, dag_ids: Collection[str], *, skips: bool = False) -> Mapping[str, UnreadDag]:
    """Lock these DAGs, also held ones, without reading their versions. Ids that do not exist are left out."""
    return {row[0]: UnreadDag(*row[1:]) for row in await db.lock(_SQL["lock_unread"], sorted(dag_ids), skips=skips)}


async def take_deferred(db: Db, dag_ids: Collection[str]) -> None:
    """Decisions about these DAGs are made now. Called before their events are read: an event that comes later defers again."""
    await db.execute(_SQL["take_deferred"], dag_ids)


def locked_dag(graph: Graph, *row: Any) -> LockedDag:
    """Build the struct from a row of the statement `lock`, which ends with its last fields, in their order (`test_sql.py`)."""
    _, _, is_paused, is_stale, next_run_id, failed_runs, logical_date, start, end, *rest = row
    last_tick = None if logical_date is None else Tick(logical_date, start, end, end)
    return LockedDag(graph, is_paused, is_stale, next_run_id, failed_runs, last_tick, *rest)


async def activity(db: Db, locked: Mapping[str, LockedDag]) -> Mapping[str, DagActivity]:
    """Counts of the runs of these DAGs, and their oldest pending events from the low watermarks on."""
    settled = db.memory.low_watermarks.settled  # Before the query: it may rise meanwhile.
    watermarks = {id_: db.memory.low_watermarks.of(id_, dag.backfilled_by_txn, db.now) for id_, dag in locked.items()}
    return await activity_from(db, watermarks, settled)


async def activity_from(db: Db, low_watermarks: Mapping[str, int], settled: int = 0) -> Mapping[str, DagActivity]:
    rows = await db.fetch(_SQL["activity"], list(low_watermarks), db.now, list(low_watermarks.values()))
    return {
        dag_id: DagActivity(running, queued, next_queued_at, oldest_dataset_id, low_watermarks[dag_id], settled)
        for dag_id, running, queued, next_queued_at, oldest_dataset_id in rows
    }


async def read(
    db: Db, locked: Mapping[str, LockedDag], activity: Mapping[str, DagActivity], plans: Mapping[str, ReadPlan]
) -> tuple[DagView, ...]:
    """Execute the read plans of these DAGs. Events are read from the low watermarks on."""
    waiting = await first_queued(db, {dag_id: plan.queued_runs for dag_id, plan in plans.items() if plan.queued_runs})
    watermarks = {dag_id: active.low_watermark for dag_id, active in activity.items()}
    found = await pending.read(db, plans, watermarks, {dag_id: active.oldest_dataset_id for dag_id, active in activity.items()})
    _observe(db, locked, activity, found)
    event_ids = {dag_id: max(min(plans[dag_id].event_runs, len(of)) - 1, 0) for dag_id, of in found.events.items()}
    ids = iter(await reserve(db, sum(plan.timed_runs for plan in plans.values()) + sum(event_ids.values())))
    since = {dag_id: plan.dates_since or last_date(locked[dag_id]) for dag_id, plan in plans.items() if plan.timed_runs}
    dates = await run_dates(db, since)
    return tuple(
        dag_view(
            dag,
            activity[dag_id],
            run_dates=dates.get(dag_id, frozenset()),
            timed_run_ids=tuple(islice(ids, plans[dag_id].timed_runs)),
            event_run_ids=tuple(islice(ids, event_ids.get(dag_id, 0))),
            unread=dag.graph.inspects_events and activity[dag_id].has_pending and dag_id not in found.events,
            arrived=found.arrived.get(dag_id, ()),
            queued_runs=waiting.get(dag_id, ()),
            pending=found.events.get(dag_id, ()),
            more_pending=found.rest[dag_id].events if dag_id in found.rest else 0,
            newest_at=found.rest[dag_id].newest_at if dag_id in found.rest else None,
            run_events=db.run_events,
        )
        for dag_id, dag in locked.items()
    )


def dag_view(dag: LockedDag, active: DagActivity, **read: Any) -> DagView:
    return DagView(
        *msgspec.structs.astuple(dag),
        running=active.running,
        queued=active.queued,
        next_queued_at=active.next_queued_at,
        **read,
    )


def _observe(db: Db, locked: Mapping[str, LockedDag], activity: Mapping[str, DagActivity], found: pending.Pending) -> None:
    """After the commit, advance the low watermarks of the DAGs whose oldest pending event is known."""
    seen: dict[str, Observation] = {}
    for dag_id, dag in locked.items():
        active = activity[dag_id]
        if dag_id in found.events or not active.has_pending:
            oldest = next((event.dataset_event_id for event in found.events.get(dag_id, ())), active.settled)
            seen[dag_id] = Observation(dag.backfilled_by_txn, db.now, min(oldest, active.settled))
    db.on_commit.append(partial(db.memory.low_watermarks.advance, seen))


def note_columns(effects: Sequence[NoteSchedule]) -> Sequence[Sequence[Any]]:
    """The columns of distinct notes: a statement cannot update a row twice."""
    notes = [msgspec.structs.replace(effect, reason=cut(effect.reason, MAX_NOTE_LENGTH)) for effect in effects]
    return columns(list({(note.dag_id, note.kind, note.reason): note for note in notes}.values()))


def last_date(dag: LockedDag) -> datetime:
    """The logical date of the last tick."""
    return dag.last_tick.logical_date if dag.last_tick else FIRST_DATE


async def run_dates(db: Db, since: Mapping[str, datetime]) -> Mapping[str, frozenset[datetime]]:
    """By DAG, the first logical dates from `since` on that have a run."""
    if not since:
        return {}
    found: dict[str, set[datetime]] = defaultdict(set)
    for dag_id, date in await db.fetch(_SQL["run_dates"], list(since), list(since.values()), MAX_RUN_DATES):
        found[dag_id].add(date)
    return {dag_id: frozenset(dates) for dag_id, dates in found.items()}


async def reserve(db: Db, count: int) -> list[int]:
    """Reserve ids for runs that this transaction may create."""
    return [row[0] for row in await db.fetch(_SQL["reserve_runs"], count)] if count else []


async def first_queued(db: Db, limits: Mapping[str, int]) -> Mapping[str, tuple[QueuedRun, ...]]:
    """The first queued runs of each DAG, in the order of promotion, at most as many as its limit."""
    if not limits:
        return {}
    runs = [run_view(row) for row in await db.fetch(_SQL["queued_runs"], list(limits), list(limits.values()), db.now)]
    known = await versions.graphs(db, {run.version_id for run in runs})
    found: dict[str, list[QueuedRun]] = defaultdict(list)
    for run in runs:
        found[run.dag_id].append(QueuedRun(run, known[run.version_id]))
    return {dag_id: tuple(found[dag_id]) for dag_id in limits}
