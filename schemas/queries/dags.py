"""DAGs: locked for a decision with all that waits for them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.graph import Graph, bounds_of
from tidegate.schemas.queries import pending, versions
from tidegate.schemas.queries.datasets import Arrived
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.floors import Seen
from tidegate.schemas.queries.pending import Wish
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.timetable.tick import Tick, next_tick
from tidegate.schemas.view import DagView, QueuedRun

_SQL = load("dags")

FIRST_DATE = datetime.min.replace(tzinfo=UTC)
MOST_TICKS = 100
"""How many timed runs of a DAG start in one transaction at most."""


Fresh = Mapping[str, Sequence[Arrived]] | None
"""By DAG, the events that a transaction has queued for those that look closer at events."""


class Looks(NamedTuple):
    """Why DAGs are looked at. `ticking` are those with ticks that are due, `freed` those whose runs may end."""

    now: datetime
    whatever_waits: bool
    fresh: Fresh
    ticking: Collection[str]
    freed: Collection[str]


class Held(msgspec.Struct, frozen=True):
    """A locked DAG. `next_run_id` is reserved for a run that this transaction may create."""

    graph: Graph
    is_paused: bool
    is_stale: bool
    next_run_id: int
    failed_runs: int
    last_tick: Tick | None
    due_at: datetime | None
    timed_since: datetime | None
    dataset_run_at: datetime | None
    deadline_at: datetime | None
    turn: str | None
    history_in: int

    def wish(self, slots: int, looks: "Looks") -> Wish:
        """What is to be read of the events that wait for it.

        All of them where time, a tick, or room for a run that a deadline wants may have changed what they come to; and where
        nobody says what it has just got, because it looks closer at events only now.
        """
        graph, dag_id = self.graph, self.graph.dag_id
        everything = (
            looks.whatever_waits
            or (graph.has_expiry and (self.due_at is None or self.due_at <= looks.now))
            or (graph.requires_both and dag_id in looks.ticking)
            or (graph.timing.deadline is not None and dag_id in looks.freed)
            or (graph.inspects_events and looks.fresh is not None and dag_id not in looks.fresh)
        )
        return Wish(graph, everything, 0 if graph.requires_both else slots)

    def view(self, active: "Activity", **read: Any) -> DagView:
        """The DAG with what waits for it, as far as that was read."""
        return DagView(
            graph=self.graph,
            is_paused=self.is_paused,
            is_stale=self.is_stale,
            running=active.running,
            queued=active.queued,
            next_run_id=self.next_run_id,
            failed_runs=self.failed_runs,
            last_tick=self.last_tick,
            due_at=self.due_at,
            timed_since=self.timed_since,
            dataset_run_at=self.dataset_run_at,
            deadline_at=self.deadline_at,
            turn=self.turn,
            next_queued_at=active.next_queued_at,
            **read,
        )

    def slots(self, running: int) -> int:
        """How many more runs may work beside so many."""
        return max(self.graph.max_active_runs - running, 0)

    def due_ticks(self, room: int, now: datetime) -> int:
        """How many runs its timetable may want to start now, up to `room`."""
        if self.graph.timetable is None or self.is_paused or self.is_stale or not room:
            return 0
        tick = next_tick(self.graph.timetable, self.last_tick, bounds_of(self.graph, self.timed_since or now), now)
        return 0 if tick is None or tick.run_after > now else min(room, MOST_TICKS)


class Activity(msgspec.Struct, frozen=True):
    """How many runs of a DAG work, and how many wait whose time has come; for the next of the others it does `next_queued_at`."""

    running: int
    queued: int
    next_queued_at: datetime | None
    has_pending: bool


async def lock(db: Db, dag_ids: Collection[str], *, whatever_waits: bool = False, fresh: Fresh = None) -> tuple[DagView, ...]:
    """Lock these DAGs, in the global order, and read what waits for them. Ids that do not exist are left out.

    `whatever_waits`: as in `look`.
    """
    return await look(db, await hold(db, dag_ids), whatever_waits=whatever_waits, fresh=fresh)


async def hold(db: Db, dag_ids: Collection[str]) -> Mapping[str, Held]:
    """Lock these DAGs, in the global order. Ids that do not exist are left out."""
    rows = await db.lock(_SQL["lock"], sorted(dag_ids)) if dag_ids else []
    known = await versions.graphs(db, {version_id for _, version_id, *_ in rows})
    return {dag_id: held_of(known[version_id], dag_id, version_id, *rest) for dag_id, version_id, *rest in rows}


def held_of(graph: Graph, *row: Any) -> Held:
    """A row of the columns of the lock."""
    _, _, is_paused, is_stale, next_run_id, failed_runs, logical_date, start, end, *rest = row
    last_tick = None if logical_date is None else Tick(logical_date, start, end, end)
    return Held(graph, is_paused, is_stale, next_run_id, failed_runs, last_tick, *rest)


async def look(
    db: Db,
    held: Mapping[str, Held],
    *,
    freeing: Mapping[str, int] | None = None,
    whatever_waits: bool = False,
    fresh: Fresh = None,
) -> tuple[DagView, ...]:
    """Read what waits for DAGs that are locked already.

    `freeing`: by DAG, how many running runs this transaction may end at most. `whatever_waits`: read all of it, even where the
    DAG as it is could not use it, because its version may change, or the clock knew of it only when it expires: it was held.
    """
    if not held:
        return ()
    settled = db.memory.floors.settled
    floors = {dag_id: db.memory.floors.of(dag_id, dag.history_in, db.now) for dag_id, dag in held.items()}
    active = await activity(db, floors)
    may_end = freeing or {}
    slots = {dag_id: dag.slots(active[dag_id].running - may_end.get(dag_id, 0)) for dag_id, dag in held.items()}
    starting = {dag_id: active[dag_id].queued if whatever_waits else slots[dag_id] for dag_id in held if active[dag_id].queued}
    waiting = await queued(db, {dag_id: count for dag_id, count in starting.items() if count})
    ticking = {dag_id: count for dag_id, dag in held.items() if (count := dag.due_ticks(slots[dag_id], db.now))}
    looks = Looks(db.now, whatever_waits, fresh, ticking, may_end)
    wishes = {dag_id: dag.wish(slots[dag_id], looks) for dag_id, dag in held.items() if active[dag_id].has_pending}
    events, whole, unread, arrived = await pending.read(db, wishes, floors, fresh or {})
    for dag_id in held.keys() - wishes.keys() | whole:
        oldest = min((event.dataset_event_id for event in events.get(dag_id, ())), default=settled)
        db.seen[dag_id] = Seen(held[dag_id].history_in, db.now, min(oldest, settled))
    each = {dag_id: pending.more_runs(wish, events[dag_id]) for dag_id, wish in wishes.items() if dag_id in events}
    ids = iter(await _reserve(db, sum(ticking.values()) + sum(each.values())))
    dates = await taken(db, {dag_id: held[dag_id] for dag_id in ticking})
    return tuple(
        dag.view(
            active[dag_id],
            taken=dates.get(dag_id, frozenset()),
            tick_run_ids=tuple(islice(ids, ticking.get(dag_id, 0))),
            event_run_ids=tuple(islice(ids, each.get(dag_id, 0))),
            unread=dag_id in unread,
            arrived=arrived.get(dag_id, ()),
            waiting=waiting.get(dag_id, ()),
            pending=events.get(dag_id, ()),
        )
        for dag_id, dag in held.items()
    )


async def activity(db: Db, floors: Mapping[str, int]) -> Mapping[str, Activity]:
    """What goes on in these DAGs. `floors`: from which event on something may wait for them."""
    rows = await db.fetch(_SQL["activity"], list(floors), db.now, list(floors.values()))
    return {row[0]: Activity(*row[1:]) for row in rows}


async def note(db: Db, effects: Sequence[NoteSchedule]) -> None:
    """What is noted again counts once more."""
    notes = {(effect.dag_id, effect.kind, effect.reason): effect for effect in effects}
    await db.execute(_SQL["note_schedule"], *columns(list(notes.values())))


async def taken(db: Db, ticking: Mapping[str, Held]) -> Mapping[str, frozenset[datetime]]:
    """The logical dates after the last tick that have a run: a user or a backfill was first."""
    if not ticking:
        return {}
    found: dict[str, set[datetime]] = defaultdict(set)
    after = [dag.last_tick.logical_date if dag.last_tick else FIRST_DATE for dag in ticking.values()]
    for dag_id, date in await db.fetch(_SQL["taken_dates"], list(ticking), after):
        found[dag_id].add(date)
    return {dag_id: frozenset(dates) for dag_id, dates in found.items()}


async def _reserve(db: Db, count: int) -> list[int]:
    """Ids for runs that this transaction may create."""
    return [row[0] for row in await db.fetch(_SQL["reserve_runs"], count)] if count else []


async def queued(db: Db, slots: Mapping[str, int]) -> Mapping[str, tuple[QueuedRun, ...]]:
    """The first queued runs of each DAG, enough for its slots: those that end as soon as they start take none."""
    found: dict[str, tuple[QueuedRun, ...]] = {}
    limits = slots
    while limits:
        found |= await _first_waiting(db, limits)
        limits = {
            dag_id: 2 * limit
            for dag_id, limit in limits.items()
            if len(found[dag_id]) == limit and sum(not queued.graph.instant for queued in found[dag_id]) < slots[dag_id]
        }
    return found


async def _first_waiting(db: Db, limits: Mapping[str, int]) -> Mapping[str, tuple[QueuedRun, ...]]:
    runs = [run_view(row) for row in await db.fetch(_SQL["waiting_runs"], list(limits), list(limits.values()), db.now)]
    known = await versions.graphs(db, {run.version_id for run in runs})
    found: dict[str, list[QueuedRun]] = defaultdict(list)
    for run in runs:
        found[run.dag_id].append(QueuedRun(run, known[run.version_id]))
    return {dag_id: tuple(found[dag_id]) for dag_id in limits}
