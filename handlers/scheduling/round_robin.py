"""Chooses the run of a DAG that starts next: its sources of runs are served round robin.

Between two runs of one source, each of the others starts one run at most. So neither a long queue of manual runs, nor a timetable
that is years behind, nor an endless stream of events blocks the other sources.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from tidegate.handlers.runs.create import create, promote
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.dataset_runs import Step, start_dataset_run, with_started_run
from tidegate.handlers.scheduling.late_inputs import run_anyway
from tidegate.handlers.scheduling.missed_ticks import note_missed
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.timetable import after_tick, may_start, timed_run, upcoming_tick
from tidegate.handlers.scheduling.timetable_with_datasets import start_timed_dataset_run
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView


class Source(StrEnum):
    """A source of runs, in the order of service."""

    QUEUE = "queue"
    """Queued runs: manual ones, and ended ones that were cleared."""
    EVENTS = "events"
    TIMETABLE = "timetable"


def start_runs(dag: DagView, now: datetime) -> Step:
    """Start runs while there is capacity."""
    while ready := _ready_sources(dag, now):
        source = _next_source(dag.last_source, ready)
        dag = yield from ready[source]
        if len(ready) > 1:
            dag = msgspec.structs.replace(dag, last_source=source)
    return dag


def _ready_sources(dag: DagView, now: datetime) -> Mapping[Source, Step]:
    """Each source that can start a run now, with the generator that starts it. A generator that is not chosen never runs."""
    return {source: step for source, first_run in FIRST_RUNS.items() if (step := first_run(dag, now)) is not None}


ORDER = tuple(Source)


def _next_source(last: str | None, ready: Mapping[Source, Step]) -> Source:
    begin = ORDER.index(Source(last)) + 1 if last is not None else 0
    return next(source for source in ORDER[begin:] + ORDER[:begin] if source in ready)


def _first_queued_run(dag: DagView, now: datetime) -> Step | None:
    return _promote(dag, now) if dag.queued_runs and has_capacity(dag) else None


def _promote(dag: DagView, now: datetime) -> Step:
    first, *others = dag.queued_runs
    yield from promote(first.run, first.graph, now)
    return with_started_run(msgspec.structs.replace(dag, queued_runs=tuple(others)), first.run, first.graph, queued=-1)


def _first_dataset_run(dag: DagView, now: datetime) -> Step | None:
    if not dag.event_run_ids:
        return None
    id_, *other_ids = dag.event_run_ids
    after = msgspec.structs.replace(dag, event_run_ids=tuple(other_ids))
    if isinstance(result := next_dataset_run(dag, now), Satisfied):
        return start_dataset_run(after, id_, result, now)
    return run_anyway(after, id_, now)


def _first_timed_run(dag: DagView, now: datetime) -> Step | None:
    if not dag.timed_run_ids or not has_capacity(dag) or (dag.graph.requires_both and dag.unread):
        return None
    tick = upcoming_tick(dag, now)
    if tick is None or not may_start(dag, tick, now):
        return None
    return start_timed_dataset_run(dag, tick, now) if dag.graph.requires_both else _start_timed_run(dag, tick, now)


def _start_timed_run(dag: DagView, tick: Tick, now: datetime) -> Step:
    run = timed_run(dag, tick)
    yield from note_missed(dag, tick, now)
    yield from create(run, {}, dag.graph, now, started=True)
    return with_started_run(after_tick(dag, tick, now), run, dag.graph)


FIRST_RUNS: Mapping[Source, Callable[[DagView, datetime], Step | None]] = {
    Source.QUEUE: _first_queued_run,
    Source.EVENTS: _first_dataset_run,
    Source.TIMETABLE: _first_timed_run,
}
