"""Divides pending events into inputs of a DAG's condition and rejected ones, with the reason of each rejection."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tidegate.schemas.conditions.condition import Leaf, inputs
from tidegate.schemas.conditions.filter import passes, undecided
from tidegate.schemas.graph import Graph, per_graph
from tidegate.schemas.view import DagView, Input, PendingEvent

NOT_SCHEDULED = "the DAG is no longer scheduled on this dataset"
FILTERED = "no filter of the DAG accepts it"
EXPIRED = "it expired before a run consumed it"


CACHED_EXTRA = 1000
"""Events with a longer extra, in characters, are inspected by every decision, so that the cache has a bound in bytes."""


class InspectedEvents(NamedTuple):
    """Events that are inputs, and the others by the reason of their rejection."""

    inputs: tuple[Input, ...]
    rejected: Mapping[str, tuple[PendingEvent, ...]]


def inspect_events(graph: Graph, events: Iterable[PendingEvent], now: datetime) -> InspectedEvents:
    """Raises FilterError for a condition with an invalid filter."""
    accepted: list[Input] = []
    rejected: dict[str, list[PendingEvent]] = {}
    leaves = _leaves(graph)
    for event in events:
        input_ = _input_or_reason(leaves, event) if len(event.extra) > CACHED_EXTRA else _cached_input_or_reason(leaves, event)
        if graph.has_expiry and not isinstance(input_, str):
            input_ = _unexpired_or_reason(input_, now)
        if isinstance(input_, str):
            rejected.setdefault(input_, []).append(event)
        else:
            accepted.append(input_)
    return InspectedEvents(tuple(accepted), {reason: tuple(of_reason) for reason, of_reason in rejected.items()})


def inputs_of(dag: DagView, now: datetime) -> tuple[Input, ...]:
    """The inputs among the pending events. Raises FilterError for a condition with an invalid filter."""
    return inspect_events(dag.graph, dag.pending, now).inputs if dag.inputs is None else dag.inputs


def leaf_expiries(input_: Input) -> tuple[datetime, ...]:
    """The expiry of the event for each leaf of the condition that has one."""
    return tuple(expiry for leaf in input_.leaves if (expiry := _expiry(leaf, input_.event)) is not None)


def expires_at(input_: Input) -> datetime | None:
    """The expiry of the event for its last leaf; None: never."""
    expiries = leaf_expiries(input_)
    return max(expiries) if len(expiries) == len(input_.leaves) else None


def _unexpired_or_reason(input_: Input, at: datetime) -> Input | str:
    """The input with the leaves for which it has not expired, or the reason if it has for all."""
    leaves = tuple(leaf for leaf in input_.leaves if (expiry := _expiry(leaf, input_.event)) is None or at < expiry)
    return Input(input_.event, leaves) if leaves else EXPIRED


class _Leaves(msgspec.Struct, frozen=True, eq=False):
    """The leaves of the condition of a graph, compared by identity: a key of caches that does not keep the graph in memory."""

    of: tuple[Leaf, ...]


@per_graph
def _leaves(graph: Graph) -> _Leaves:
    return _Leaves(tuple(inputs(graph.schedule)) if graph.schedule is not None else ())


def _input_or_reason(leaves: _Leaves, event: PendingEvent) -> Input | str:
    covering = _covering(leaves, event.uri)
    if not covering:
        return NOT_SCHEDULED
    extra: Mapping[str, Any] = msgspec.json.decode(event.extra) if any(leaf.where for leaf in covering) else {}
    passed = tuple(leaf for leaf in covering if not leaf.where or passes(leaf.where, extra))
    return Input(event, passed) if passed else _filtered(covering, extra)


def _filtered(covering: tuple[Leaf, ...], extra: Mapping[str, Any]) -> str:
    """The reason of the rejection, with the fault of the event or of a filter if a filter could not decide."""
    undecided_because = next(filter(None, (undecided(leaf.where, extra) for leaf in covering)), "")
    return f"{FILTERED}: {undecided_because}" if undecided_because else FILTERED


_cached_input_or_reason = lru_cache(maxsize=20_000)(_input_or_reason)
"""An event that stays pending is inspected by every decision."""


@lru_cache(maxsize=10_000)
def _covering(leaves: _Leaves, uri: str) -> tuple[Leaf, ...]:
    return tuple(leaf for leaf in leaves.of if leaf.covers(uri))


def _expiry(leaf: Leaf, event: PendingEvent) -> datetime | None:
    return None if leaf.expire_after_s is None else event.time + timedelta(seconds=leaf.expire_after_s)
