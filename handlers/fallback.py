"""What comes of inputs that are not there by the deadline of their condition."""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from tidegate.handlers.consume import Step, dataset_run
from tidegate.handlers.due import deadline_of
from tidegate.handlers.gate import condition_gate, has_room
from tidegate.handlers.inputs import inputs_of
from tidegate.handlers.judge import Apart, Open, Waiting, too_soon
from tidegate.schemas.effect import DiscardEvents, NoteSchedule
from tidegate.schemas.view import DagView

SKIPPED = "the inputs beside it had not arrived by the deadline"


def past_deadline(dag: DagView, ids: Iterator[int], now: datetime) -> Step:
    """Run anyway, skip or say so, once. A run waits for room, and for the time that is to lie between runs."""
    spec = dag.graph.timing.deadline
    dag = watched(dag, now)
    due = _missed(dag, now)
    if spec is None or due is None:
        return dag
    dealt = msgspec.structs.replace(dag, deadline_at=due)
    said = f"the inputs had not arrived by {due.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if spec.fallback == "alert":
        yield NoteSchedule(dag.graph.dag_id, "deadline_alert", f"{said}: they are still awaited", now)
        return dealt
    if spec.fallback == "skip":
        yield NoteSchedule(dag.graph.dag_id, "deadline_skip", f"{said}: no run", now)
        if dag.pending:
            yield DiscardEvents(dag.graph.dag_id, dag.pending, SKIPPED)
        return msgspec.structs.replace(dealt, pending=(), inputs=())
    if not has_room(dag) or too_soon(dag.graph, now, dag.dataset_run_at) or (id_ := next(ids, None)) is None:
        return dag
    yield NoteSchedule(dag.graph.dag_id, "deadline_run", f"{said}: a run all the same", now)
    return (yield from dataset_run(dealt, id_, Open(dag.pending), now, due))


def _missed(dag: DagView, now: datetime) -> datetime | None:
    """The deadline that has passed while the inputs were not there."""
    if dag.graph.timing.deadline is None or dag.unread or not isinstance(condition_gate(dag, now), Waiting | Apart):
        return None
    due = deadline_of(dag, inputs_of(dag, now), now)
    return due if due is not None and due <= now else None


def watched(dag: DagView, now: datetime) -> DagView:
    """Deadlines at a time of day count from when they are first seen."""
    deadline = dag.graph.timing.deadline
    is_new = deadline is not None and deadline.at is not None and dag.deadline_at is None
    return msgspec.structs.replace(dag, deadline_at=now) if is_new else dag
