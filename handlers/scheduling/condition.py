"""Evaluates the condition of a DAG and its timing over pending inputs, at a point in time."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from tidegate.schemas.conditions.condition import Leaf, describe_condition, inputs, met_by_inputs
from tidegate.schemas.error import FATAL
from tidegate.schemas.explain.reasons import ConditionBroken, Debouncing, InputsMissing, NotSatisfied, OutsideWindow, RateLimited
from tidegate.schemas.graph import Graph
from tidegate.schemas.view import Input, PendingEvent


class Satisfied(msgspec.Struct, frozen=True):
    """The condition holds: a run consumes `events`. `superseded` events are older than their `within` window."""

    events: tuple[PendingEvent, ...] = ()
    superseded: tuple[PendingEvent, ...] = ()


ConditionResult = Satisfied | NotSatisfied
Evaluation = TypeVar("Evaluation")


def evaluate_condition(
    graph: Graph,
    arrived: Sequence[Input],
    at: datetime,
    last_run_at: datetime | None,
    *,
    overdue: bool = False,
    newest_at: datetime | None = None,
) -> ConditionResult:
    """The result for these inputs at `at`. After the input deadline (`overdue`) the condition is not debounced.

    `newest_at`: the arrival of the newest event, if `arrived` has only the oldest.
    """
    satisfied = _first(arrived) if graph.one_run_per_event else _satisfy(graph, arrived)
    if satisfied is None:
        return _not_satisfied(graph, arrived)
    timing = graph.timing
    if timing.quiet_for_s is not None and not overdue:
        quiet_at = (newest_at or max(input_.event.arrived_at for input_ in arrived)) + timedelta(seconds=timing.quiet_for_s)
        if timing.max_wait_s is not None:
            quiet_at = min(quiet_at, _satisfied_since(graph, arrived) + timedelta(seconds=timing.max_wait_s))
        if at < quiet_at:
            return Debouncing(quiet_at)
    return rate_limited(graph, at, last_run_at) or satisfied


def rate_limited(graph: Graph, at: datetime, last_run_at: datetime | None) -> RateLimited | None:
    """The reason until the minimum interval after the last run has passed, then None."""
    if graph.timing.min_interval_s is None or last_run_at is None:
        return None
    free_at = last_run_at + timedelta(seconds=graph.timing.min_interval_s)
    return RateLimited(free_at) if at < free_at else None


def evaluated(evaluate: Callable[[], Evaluation]) -> Evaluation | ConditionBroken:
    """The result, or ConditionBroken for an evaluation that raises."""
    try:
        return evaluate()
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - any error concerns this DAG only
        return ConditionBroken(f"{type(error).__name__}: {error}")


def _first(arrived: Sequence[Input]) -> Satisfied | None:
    """The oldest event alone: each event has a run of its own, in the order of arrival."""
    return Satisfied((arrived[0].event,)) if arrived else None


def _satisfy(graph: Graph, arrived: Sequence[Input]) -> Satisfied | None:
    if not _holds(graph, arrived):
        return None  # no window of them meets the condition either
    if graph.timing.within_s is not None:
        return _newest_window(graph, arrived, graph.timing.within_s)
    return Satisfied(tuple(input_.event for input_ in arrived))


def _holds(graph: Graph, arrived: Sequence[Input]) -> bool:
    return graph.schedule is not None and met_by_inputs(graph.schedule, {leaf for input_ in arrived for leaf in input_.leaves})


def _newest_window(graph: Graph, arrived: Sequence[Input], within_s: float) -> Satisfied | None:
    """The events of the newest window of `within_s` seconds that meet the condition."""
    ordered = sorted(arrived, key=lambda input_: (input_.event.time, input_.event.dataset_event_id))
    times = [input_.event.time for input_ in ordered]
    present: Counter[Leaf] = Counter()
    start = len(ordered)
    for end in range(len(ordered), 0, -1):
        first = bisect_left(times, times[end - 1] - timedelta(seconds=within_s))
        present.update(leaf for input_ in ordered[first:start] for leaf in input_.leaves)
        start = min(start, first)
        if graph.schedule is not None and met_by_inputs(graph.schedule, +present):
            inside = {input_.event.dataset_event_id for input_ in ordered[first:end]}
            before = {input_.event.dataset_event_id for input_ in ordered[:first]}
            events = [input_.event for input_ in arrived]
            return Satisfied(
                tuple(event for event in events if event.dataset_event_id in inside),
                tuple(event for event in events if event.dataset_event_id in before),
            )
        present.subtract(ordered[end - 1].leaves)
    return None


def _satisfied_since(graph: Graph, arrived: Sequence[Input]) -> datetime:
    """The arrival of the event that completed the condition, which must hold."""
    ordered = sorted(arrived, key=lambda input_: input_.event.arrived_at)
    if graph.timing.within_s is None:
        first: dict[Leaf, datetime] = {}
        for input_ in ordered:
            first.update((leaf, input_.event.arrived_at) for leaf in input_.leaves if leaf not in first)
        moments = sorted(set(first.values()))
        return next(
            at
            for at in moments
            if graph.schedule and met_by_inputs(graph.schedule, [leaf for leaf in first if first[leaf] <= at])
        )
    enough = bisect_left(range(1, len(ordered)), 1, key=lambda count: int(_satisfy(graph, ordered[:count]) is not None))
    return ordered[enough].event.arrived_at


def _not_satisfied(graph: Graph, arrived: Sequence[Input]) -> InputsMissing | OutsideWindow:
    if graph.timing.within_s is not None and _holds(graph, arrived):
        return OutsideWindow(graph.timing.within_s)
    present = {leaf for input_ in arrived for leaf in input_.leaves}
    wanted = inputs(graph.schedule) if graph.schedule is not None else ()
    return InputsMissing(tuple(sorted(describe_condition(leaf) for leaf in wanted if leaf not in present)))
