"""What a DAG does next, given all that waits for it: start queued runs, make a dataset run, or nothing.

Every message that may open a gate ends here, so that a DAG's next step is decided in one place.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.gate import Open, gate
from tidegate.handlers.start import create, promote, queued_run
from tidegate.schemas.dag import leaves
from tidegate.schemas.effect import ConsumeEvents, DiscardEvents, Effect
from tidegate.schemas.state import RunType
from tidegate.schemas.view import DagView, PendingEvent

NOT_SCHEDULED = "the DAG is no longer scheduled on this dataset"


def settle(dag: DagView, now: datetime) -> Iterator[Effect]:
    """Start what may start. Queued runs come first, in order; then the pending events, all of them in one run."""
    yield from _discard(dag)
    dag = msgspec.structs.replace(dag, pending=wanted(dag))
    if dag.is_held:
        return
    for queued in dag.waiting:
        if dag.running < dag.graph.max_active_runs:
            yield from promote(queued.run, queued.graph, now)
            dag = msgspec.structs.replace(dag, running=dag.running + (not queued.graph.instant), queued=dag.queued - 1)
    if isinstance(gate(dag), Open):
        yield from consume(dag, now)


def wanted(dag: DagView) -> tuple[PendingEvent, ...]:
    """The pending events of datasets that the DAG's condition mentions."""
    uris = leaves(dag.graph.schedule) if dag.graph.schedule is not None else frozenset()
    return tuple(event for event in dag.pending if event.uri in uris)


def consume(dag: DagView, now: datetime) -> Iterator[Effect]:
    """One run of everything pending."""
    run_after = max(event.occurred_at for event in dag.pending)
    run = queued_run(dag.next_run_id, dag.graph, dataset_run_id(run_after, dag.pending), RunType.DATASET, run_after)
    yield from create(run, {}, dag.graph, now, started=True)
    yield ConsumeEvents(dag.graph.dag_id, run.id, dag.pending)


def dataset_run_id(run_after: datetime, events: Sequence[PendingEvent]) -> str:
    """`dataset__<time>_<hash of the consumed events>`: two runs never consume the same event, so it is unique.

    Producers that stamp all their events with one time leave it to the hash alone: it must not be short.
    """
    consumed = ",".join(str(event.dataset_event_id) for event in events)
    return f"dataset__{run_after.astimezone(UTC).isoformat()}_{uuid5(NAMESPACE_OID, consumed).hex[:16]}"


def _discard(dag: DagView) -> Iterator[Effect]:
    kept = set(wanted(dag))
    left = tuple(event for event in dag.pending if event not in kept)
    if left:
        yield DiscardEvents(dag.graph.dag_id, left, NOT_SCHEDULED)
