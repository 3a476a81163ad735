"""Which events that wait for a DAG count for its condition, and what becomes of those that do not."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tidegate.schemas.conditions.condition import Leaf, dataset_uris, inputs
from tidegate.schemas.conditions.filter import passes
from tidegate.schemas.graph import Graph
from tidegate.schemas.view import DagView, Input, PendingEvent

NOT_SCHEDULED = "the DAG is no longer scheduled on this dataset"
FILTERED = "no filter of the DAG lets it pass"
EXPIRED = "it expired before a run took it"


class Sifted(NamedTuple):
    """The inputs among some events, and the other events by the reason why they are none."""

    inputs: tuple[Input, ...]
    refused: Mapping[str, tuple[PendingEvent, ...]]


def sift(graph: Graph, events: Iterable[PendingEvent], now: datetime) -> Sifted:
    """What these events are for a DAG now. Raises FilterError for a condition that cannot be read."""
    found: list[Input] = []
    refused: dict[str, list[PendingEvent]] = {}
    for event in events:
        each = _input(graph, event)
        if graph.has_expiry and not isinstance(each, str):
            each = _alive(each, now)
        if isinstance(each, str):
            refused.setdefault(each, []).append(event)
        else:
            found.append(each)
    return Sifted(tuple(found), {reason: tuple(of) for reason, of in refused.items()})


def inputs_of(dag: DagView, now: datetime) -> tuple[Input, ...]:
    """The inputs among all that was read of what waits. Raises FilterError for a condition that cannot be read."""
    return sift(dag.graph, dag.pending, now).inputs if dag.inputs is None else dag.inputs


def wanted(dag: DagView) -> Sifted:
    """The same for a DAG to which only the dataset of an event matters."""
    uris = dataset_uris(dag.graph.schedule) if dag.graph.schedule is not None else frozenset()
    stray = tuple(event for event in dag.pending if event.uri not in uris)
    kept = tuple(event for event in dag.pending if event.uri in uris) if stray else dag.pending
    return Sifted(tuple(Input(event, ()) for event in kept), {NOT_SCHEDULED: stray} if stray else {})


def _alive(each: Input, at: datetime) -> Input | str:
    """The input with those parts for which it has not expired by then; where there are none, that it has expired."""
    left = tuple(leaf for leaf in each.leaves if (end := _end(leaf, each.event)) is None or at < end)
    return Input(each.event, left) if left else EXPIRED


def part_ends(each: Input) -> tuple[datetime, ...]:
    """When an event expires for each part of the condition for which it ever does."""
    return tuple(end for leaf in each.leaves if (end := _end(leaf, each.event)) is not None)


def expires_at(each: Input) -> datetime | None:
    """When an event is an input of nothing any more; None: never."""
    ends = part_ends(each)
    return max(ends) if len(ends) == len(each.leaves) else None


@lru_cache(maxsize=20_000)
def _input(graph: Graph, event: PendingEvent) -> Input | str:
    """Kept for a while: what waits for long is looked at often."""
    parts = _parts(graph, event.uri)
    if not parts:
        return NOT_SCHEDULED
    extra: Mapping[str, Any] = msgspec.json.decode(event.extra) if any(leaf.where for leaf in parts) else {}
    passed = tuple(leaf for leaf in parts if not leaf.where or passes(leaf.where, extra))
    return Input(event, passed) if passed else FILTERED


@lru_cache(maxsize=10_000)
def _parts(graph: Graph, uri: str) -> tuple[Leaf, ...]:
    """The parts of the condition that a dataset belongs to."""
    return tuple(leaf for leaf in inputs(graph.schedule) if leaf.covers(uri)) if graph.schedule is not None else ()


def _end(leaf: Leaf, event: PendingEvent) -> datetime | None:
    return None if leaf.expire_after_s is None else event.time + timedelta(seconds=leaf.expire_after_s)
