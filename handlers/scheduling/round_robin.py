"""Which run of a DAG starts next, where several may: they take turns by what asks for them.

Before the next run that one of them asks for, each of the others has one more run at most. So a queue of runs asked for by hand,
a timetable that is years behind, or events that never stop hold up nothing else.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from tidegate.handlers.runs.create import create, promote
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.dataset_runs import Step, dataset_run, started
from tidegate.handlers.scheduling.late_inputs import fallback_run
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.timetable import after_tick, following, is_due, timed_run
from tidegate.handlers.scheduling.timetable_with_datasets import joint_run
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView


class Source(StrEnum):
    """What asks for a run, in the order of their first turns."""

    QUEUE = "queue"
    """Somebody: by hand, or by clearing one that had ended."""
    EVENTS = "events"
    TIMETABLE = "timetable"


def start_runs(dag: DagView, now: datetime) -> Step:
    """Start runs while there is room."""
    while starts := _offers(dag, now):
        source = _turn(dag.turn, starts)
        dag = yield from starts[source]
        if len(starts) > 1:
            dag = msgspec.structs.replace(dag, turn=source)
    return dag


def _offers(dag: DagView, now: datetime) -> Mapping[Source, Step]:
    """The first run that each would start now, if it would start any."""
    return {source: step for source, offer in OFFERS.items() if (step := offer(dag, now)) is not None}


def _turn(last: str | None, starts: Mapping[Source, Step]) -> Source:
    """The one after the last, in a circle."""
    order = list(Source)
    begin = order.index(Source(last)) + 1 if last is not None else 0
    return next(source for source in order[begin:] + order[:begin] if source in starts)


def _of_queue(dag: DagView, now: datetime) -> Step | None:
    return _promoted(dag, now) if dag.waiting and has_capacity(dag) else None


def _promoted(dag: DagView, now: datetime) -> Step:
    first, *rest = dag.waiting
    yield from promote(first.run, first.graph, now)
    return started(msgspec.structs.replace(dag, waiting=tuple(rest)), first.run, first.graph, queued=-1)


def _of_events(dag: DagView, now: datetime) -> Step | None:
    """A run of everything that is pending, or what a deadline makes of it."""
    if not dag.event_run_ids:
        return None
    id_, *rest = dag.event_run_ids
    left = msgspec.structs.replace(dag, event_run_ids=tuple(rest))
    if isinstance(result := next_dataset_run(dag, now), Satisfied):
        return dataset_run(left, id_, result, now)
    return fallback_run(left, id_, now)


def _of_timetable(dag: DagView, now: datetime) -> Step | None:
    if not dag.tick_run_ids or not has_capacity(dag) or (dag.graph.requires_both and dag.unread):
        return None
    tick = following(dag, now)
    if tick is None or not is_due(dag, tick, now):
        return None
    return joint_run(dag, tick, now) if dag.graph.requires_both else _ticked(dag, tick, now)


def _ticked(dag: DagView, tick: Tick, now: datetime) -> Step:
    run = timed_run(dag, tick)
    yield from create(run, {}, dag.graph, now, started=True)
    return started(after_tick(dag, tick, now), run, dag.graph)


OFFERS: Mapping[Source, Callable[[DagView, datetime], Step | None]] = {
    Source.QUEUE: _of_queue,
    Source.EVENTS: _of_events,
    Source.TIMETABLE: _of_timetable,
}
