"""Whether the inputs that have arrived make a run now: the condition and its timing, over rows and a moment."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.schemas.authoring.dataset import text
from tidegate.schemas.conditions.condition import Leaf, inputs, met
from tidegate.schemas.graph import Graph
from tidegate.schemas.view import Input, PendingEvent


class Open(msgspec.Struct, frozen=True):
    """The condition holds: a run takes these events, and those that are too old to go with them are superseded."""

    events: tuple[PendingEvent, ...] = ()
    superseded: tuple[PendingEvent, ...] = ()


class Waiting(msgspec.Struct, frozen=True):
    """The condition does not hold; of these inputs no event is pending."""

    missing: tuple[str, ...]


class Apart(msgspec.Struct, frozen=True):
    """All inputs are there, but not within this time of each other."""

    within_s: float


class Busy(msgspec.Struct, frozen=True):
    """The condition holds, but events still come: it counts from then on if no more do."""

    until: datetime


class TooSoon(msgspec.Struct, frozen=True):
    """The condition holds, but the run before was started too shortly ago."""

    until: datetime


Verdict = Open | Waiting | Apart | Busy | TooSoon


def judge(graph: Graph, found: Sequence[Input], at: datetime, last_run_at: datetime | None, *, hurry: bool = False) -> Verdict:
    """What these inputs come to at that moment. In a `hurry` nobody waits for quiet."""
    opened = _first(found) if graph.one_run_per_event else _take(graph, found)
    if opened is None:
        return _lacking(graph, found)
    timing = graph.timing
    if timing.quiet_for_s is not None and not hurry:
        quiet_at = max(each.event.arrived_at for each in found) + timedelta(seconds=timing.quiet_for_s)
        if timing.max_wait_s is not None:
            quiet_at = min(quiet_at, _held_since(graph, found) + timedelta(seconds=timing.max_wait_s))
        if at < quiet_at:
            return Busy(quiet_at)
    return too_soon(graph, at, last_run_at) or opened


def too_soon(graph: Graph, at: datetime, last_run_at: datetime | None) -> TooSoon | None:
    """Whether the time that is to lie between two runs has yet to pass."""
    if graph.timing.min_interval_s is None or last_run_at is None:
        return None
    free_at = last_run_at + timedelta(seconds=graph.timing.min_interval_s)
    return TooSoon(free_at) if at < free_at else None


def _first(found: Sequence[Input]) -> Open | None:
    """Each event makes a run of its own, in the order in which they came."""
    return Open((found[0].event,)) if found else None


def _take(graph: Graph, found: Sequence[Input]) -> Open | None:
    if graph.timing.within_s is not None:
        return _window(graph, found, graph.timing.within_s)
    return Open(tuple(each.event for each in found)) if _holds(graph, found) else None


def _holds(graph: Graph, found: Sequence[Input]) -> bool:
    return graph.schedule is not None and met(graph.schedule, {leaf for each in found for leaf in each.leaves})


def _window(graph: Graph, found: Sequence[Input], within_s: float) -> Open | None:
    """The newest stretch of time of that length whose events meet the condition."""
    ordered = sorted(found, key=lambda each: (each.event.time, each.event.dataset_event_id))
    times = [each.event.time for each in ordered]
    there: Counter[Leaf] = Counter()
    start = len(ordered)
    for end in range(len(ordered), 0, -1):
        first = bisect_left(times, times[end - 1] - timedelta(seconds=within_s))
        there.update(leaf for each in ordered[first:start] for leaf in each.leaves)
        start = min(start, first)
        if graph.schedule is not None and met(graph.schedule, +there):
            inside = {each.event.dataset_event_id for each in ordered[first:end]}
            before = {each.event.dataset_event_id for each in ordered[:first]}
            events = [each.event for each in found]
            return Open(
                tuple(event for event in events if event.dataset_event_id in inside),
                tuple(event for event in events if event.dataset_event_id in before),
            )
        there.subtract(ordered[end - 1].leaves)
    return None


def _held_since(graph: Graph, found: Sequence[Input]) -> datetime:
    """When the condition came to hold, given that it does: with the event that was the first to suffice."""
    ordered = sorted(found, key=lambda each: each.event.arrived_at)
    if graph.timing.within_s is None:
        first: dict[Leaf, datetime] = {}
        for each in ordered:
            first.update((leaf, each.event.arrived_at) for leaf in each.leaves if leaf not in first)
        moments = sorted(set(first.values()))
        return next(at for at in moments if graph.schedule and met(graph.schedule, [leaf for leaf in first if first[leaf] <= at]))
    enough = bisect_left(range(1, len(ordered)), 1, key=lambda count: int(_take(graph, ordered[:count]) is not None))
    return ordered[enough].event.arrived_at


def _lacking(graph: Graph, found: Sequence[Input]) -> Waiting | Apart:
    there = {leaf for each in found for leaf in each.leaves}
    if graph.timing.within_s is not None and _holds(graph, found):
        return Apart(graph.timing.within_s)
    wanted = inputs(graph.schedule) if graph.schedule is not None else ()
    return Waiting(tuple(sorted(text(leaf) for leaf in wanted if leaf not in there)))
