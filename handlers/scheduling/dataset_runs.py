"""Runs of events: what waits for a DAG becomes a run, or is discarded with the reason."""

from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.runs.create import create, ends_at_start, queued_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.inputs import Sifted, sift, wanted
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, NoteSchedule
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunType
from tidegate.schemas.view import DagView, PendingEvent, RunView

SUPERSEDED = "a run has newer inputs, with which it does not go together"

Step = Generator[Effect, None, DagView]
"""Effects, and the DAG after them."""


def sifted(dag: DagView, now: datetime) -> Step:
    """Discard what is no input of the DAG, or no longer. What waits for a condition that cannot be read goes on waiting."""
    if not dag.graph.inspects_events:
        found = wanted(dag)
    else:
        try:
            found = sift(dag.graph, dag.arrived if dag.unread else dag.pending, now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this DAG only
            yield NoteSchedule(dag.graph.dag_id, "condition_error", f"{type(error).__name__}: {error}", now)
            return dag
    yield from (DiscardEvents(dag.graph.dag_id, events, reason) for reason, events in found.refused.items())
    return _with_inputs(dag, found)


def _with_inputs(dag: DagView, found: Sifted) -> DagView:
    kept = tuple(each.event for each in found.inputs) if found.refused else dag.arrived if dag.unread else dag.pending
    if dag.unread:
        return msgspec.structs.replace(dag, arrived=kept)
    return msgspec.structs.replace(dag, pending=kept, inputs=found.inputs if dag.graph.inspects_events else None)


def dataset_run(dag: DagView, id_: int, satisfied: Satisfied, now: datetime, due: datetime | None = None) -> Step:
    """A run of events, at once started. One that a deadline makes of nothing is of that time."""
    run_after = max((event.occurred_at for event in satisfied.events), default=due or now)
    run_id = dataset_run_id(run_after, satisfied.events)
    run = queued_run(id_, dag.graph, run_id, RunType.DATASET, run_after)
    yield from create(run, {}, dag.graph, now, started=True, events=len(satisfied.events))
    yield from taken(dag, run, satisfied)
    return after_run(without(dag, satisfied), run, now)


def taken(dag: DagView, run: RunView, satisfied: Satisfied) -> Iterator[Effect]:
    """What becomes of the events that a run takes, and of those that it supersedes."""
    if satisfied.events:
        yield ConsumeEvents(dag.graph.dag_id, run.id, satisfied.events)
    if satisfied.superseded:
        yield DiscardEvents(dag.graph.dag_id, satisfied.superseded, SUPERSEDED)


def without(dag: DagView, satisfied: Satisfied) -> DagView:
    """The DAG when these events do not wait for it any more."""
    if satisfied.events is dag.pending:
        return msgspec.structs.replace(dag, pending=(), inputs=())
    gone = {event.dataset_event_id for event in (*satisfied.events, *satisfied.superseded)}
    left = tuple(event for event in dag.pending if event.dataset_event_id not in gone)
    inputs = tuple(each for each in dag.inputs or () if each.event.dataset_event_id not in gone)
    return msgspec.structs.replace(dag, pending=left, inputs=inputs)


def after_run(dag: DagView, run: RunView, at: datetime) -> DagView:
    """The DAG once its condition has made a run."""
    dag = started(dag, run, dag.graph)
    timing = dag.graph.timing
    return msgspec.structs.replace(dag, dataset_run_at=at) if timing.min_interval_s or timing.deadline else dag


def started(dag: DagView, run: RunView, graph: Graph, *, queued: int = 0) -> DagView:
    """The DAG with one more run at work, unless that ended as soon as it started."""
    return msgspec.structs.replace(dag, running=dag.running + (not ends_at_start(run, graph)), queued=dag.queued + queued)


def dataset_run_id(run_after: datetime, events: Sequence[PendingEvent]) -> str:
    """`dataset__<time>_<hash of the consumed events>`: two runs never consume the same event, so it is unique.

    Producers that stamp all their events with one time leave it to the hash alone: it must not be short.
    """
    consumed = ",".join(str(event.dataset_event_id) for event in events)
    return f"dataset__{run_after.astimezone(UTC).isoformat()}_{uuid5(NAMESPACE_OID, consumed).hex[:16]}"
