"""Dataset runs: a run consumes pending events, or they are discarded with a reason."""

from collections.abc import Generator, Iterator
from datetime import datetime

import msgspec

from tidegate.handlers.runs.create import create, ends_at_start, queued_run
from tidegate.handlers.runs.run_ids import dataset_run_id
from tidegate.handlers.scheduling.condition import Satisfied, evaluated
from tidegate.handlers.scheduling.inputs import NOT_SCHEDULED, InspectedEvents, inspect_events
from tidegate.handlers.scheduling.run_size import limit_events
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, NoteSchedule
from tidegate.schemas.explain.reasons import ConditionBroken
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunType
from tidegate.schemas.view import DagView, RunView

SUPERSEDED = "a run consumed newer inputs, and it is too old to go with them"

Step = Generator[Effect, None, DagView]
"""Yields effects and returns the DAG after them."""


def discard_rejected(dag: DagView, now: datetime) -> Step:
    """Discard events that are not inputs, or have expired. While a filter is invalid, all events stay pending."""
    if not dag.graph.inspects_events:
        return (yield from _discard_by_datasets(dag))
    inspected = evaluated(lambda: _inspected(dag, now))
    if isinstance(inspected, ConditionBroken):
        yield NoteSchedule(dag.graph.dag_id, "condition_error", inspected.reason, now)
        return dag
    yield from (DiscardEvents(dag.graph.dag_id, events, reason) for reason, events in inspected.rejected.items())
    return _with_inputs(dag, inspected)


def _discard_by_datasets(dag: DagView) -> Step:
    """As `discard_rejected`, for a DAG whose condition depends on the datasets of events only."""
    uris = dag.graph.dataset_uris
    rejected = tuple(event for event in dag.pending if event.uri not in uris)
    if not rejected:
        return dag
    yield DiscardEvents(dag.graph.dag_id, rejected, NOT_SCHEDULED)
    return msgspec.structs.replace(dag, pending=tuple(event for event in dag.pending if event.uri in uris))


def _inspected(dag: DagView, now: datetime) -> InspectedEvents:
    return inspect_events(dag.graph, dag.arrived if dag.unread else dag.pending, now)


def _with_inputs(dag: DagView, inspected: InspectedEvents) -> DagView:
    events = tuple(input_.event for input_ in inspected.inputs)
    if dag.unread:
        return msgspec.structs.replace(dag, arrived=events)
    return msgspec.structs.replace(dag, pending=events, inputs=inspected.inputs)


def start_dataset_run(dag: DagView, id_: int, satisfied: Satisfied, now: datetime, deadline: datetime | None = None) -> Step:
    """Start a run. Its `run_after` is the time of its newest event; without events, the input deadline.

    A producer's clock may be ahead: a later `run_after` would delay the run once it is cleared, and the runs after it.
    """
    satisfied, left = limit_events(dag, satisfied)
    run_after = min(max((event.occurred_at for event in satisfied.events), default=deadline or now), now)
    run_id = dataset_run_id(id_, run_after, satisfied.events)
    run = queued_run(id_, dag.graph, run_id, RunType.DATASET, run_after)
    yield from create(run, {}, dag.graph, now, started=True, events=len(satisfied.events), events_left=left)
    yield from consume(dag, run, satisfied)
    return after_dataset_run(without_events(dag, satisfied), run, now)


def consume(dag: DagView, run: RunView, satisfied: Satisfied) -> Iterator[Effect]:
    """Consume the events of a run, and discard the events that it supersedes."""
    if satisfied.events:
        yield ConsumeEvents(dag.graph.dag_id, run.id, satisfied.events)
    if satisfied.superseded:
        yield DiscardEvents(dag.graph.dag_id, satisfied.superseded, SUPERSEDED)


def without_events(dag: DagView, satisfied: Satisfied) -> DagView:
    """The DAG without the consumed and the superseded events."""
    if satisfied.events is dag.pending:
        return msgspec.structs.replace(dag, pending=(), inputs=())
    removed = {event.dataset_event_id for event in (*satisfied.events, *satisfied.superseded)}
    pending = tuple(event for event in dag.pending if event.dataset_event_id not in removed)
    inputs = tuple(input_ for input_ in dag.inputs or () if input_.event.dataset_event_id not in removed)
    return msgspec.structs.replace(dag, pending=pending, inputs=inputs)


def after_dataset_run(dag: DagView, run: RunView, at: datetime) -> DagView:
    """The DAG after a dataset run has started at `at`."""
    dag = with_started_run(dag, run, dag.graph)
    timing = dag.graph.timing
    return msgspec.structs.replace(dag, dataset_run_at=at) if timing.min_interval_s or timing.deadline else dag


def with_started_run(dag: DagView, run: RunView, graph: Graph, *, queued: int = 0) -> DagView:
    """The DAG with one more running run, unless the run ends as soon as it starts."""
    return msgspec.structs.replace(dag, running=dag.running + (not ends_at_start(run, graph)), queued=dag.queued + queued)
