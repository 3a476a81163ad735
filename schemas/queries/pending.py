"""What waits for DAGs whose rows are locked: as much of it as their next decision needs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.schemas.conditions.condition import DatasetRef, PatternRef, holds
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import Arrived
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import PendingEvent

EACH_AT_ONCE = 100
"""How many runs of one event each a transaction makes at most."""


class Wish(NamedTuple):
    """A DAG for which something is pending. `everything`: all of it and all about it, for its condition may change.

    `room`: so many runs it could make of it.
    """

    graph: Graph
    everything: bool
    room: int


class Pending(NamedTuple):
    """What was read of what waits, all of it for those that are `whole`.

    Of DAGs that look closer at events and were left `unread`, only what has just come.
    """

    events: Mapping[str, tuple[PendingEvent, ...]]
    whole: frozenset[str]
    unread: frozenset[str]
    arrived: Mapping[str, tuple[PendingEvent, ...]]


async def read(db: Db, wishes: Mapping[str, Wish], floors: Mapping[str, int], fresh: Mapping[str, Sequence[Arrived]]) -> Pending:
    """Pending events of those DAGs whose condition they may meet, or of which everything is wanted: from their `floors` on.

    Which leaves have something waiting is asked first: a condition that waits for one input must not read a growing queue of
    the others at every event.
    """
    possible = {dag_id: wish for dag_id, wish in wishes.items() if wish.everything or wish.room}
    joint = [dag_id for dag_id, wish in possible.items() if not wish.everything and not _single(wish.graph)]
    waiting = await datasets.satisfied(db, {dag_id: floors[dag_id] for dag_id in joint}) if joint else {}
    unmet = {dag_id for dag_id in joint if not _met(possible[dag_id].graph, waiting.get(dag_id, set()))}
    ready = {dag_id: wish for dag_id, wish in possible.items() if dag_id not in unmet}
    events = await _read(db, ready, floors)
    whole = frozenset(dag_id for dag_id, wish in ready.items() if (most := _most(wish)) is None or len(events[dag_id]) < most)
    unread = frozenset(dag_id for dag_id, wish in wishes.items() if wish.graph.inspects_events and dag_id not in ready)
    new = [(dag_id, *keys) for dag_id in sorted(unread) for keys in fresh.get(dag_id, ())]
    return Pending(events, whole, unread, await datasets.arrived(db, new) if new else {})


async def _read(db: Db, ready: Mapping[str, Wish], floors: Mapping[str, int]) -> Mapping[str, tuple[PendingEvent, ...]]:
    plain = {dag_id: floors[dag_id] for dag_id, wish in ready.items() if not (wish.graph.inspects_events or wish.everything)}
    closer = {dag_id: _most(wish) for dag_id, wish in ready.items() if wish.graph.inspects_events or wish.everything}
    found: dict[str, tuple[PendingEvent, ...]] = defaultdict(tuple)
    if plain:
        found |= await datasets.lock_pending(db, plain)
    if closer:
        found |= await datasets.lock_inputs(db, closer, floors)
    return found


def _most(wish: Wish) -> int | None:
    """Who makes a run of each event needs no more of them than there is room for; one is looked at beyond."""
    return None if wish.everything or not wish.graph.one_run_per_event else min(wish.room, EACH_AT_ONCE) + 1


def more_runs(wish: Wish, events: Sequence[PendingEvent]) -> int:
    """How many runs besides the first one these events may make."""
    return max(min(wish.room, EACH_AT_ONCE, len(events)) - 1, 0) if wish.graph.one_run_per_event else 0


def _single(graph: Graph) -> bool:
    return graph.schedule is None or isinstance(graph.schedule, DatasetRef | PatternRef)


def _met(graph: Graph, pending: set[str]) -> bool:
    return graph.schedule is not None and holds(graph.schedule, pending)
