"""What comes of inputs that are not there by the deadline of their condition."""

from datetime import UTC, datetime

import msgspec

from tidegate.handlers.runs.notifications import notify_late_inputs
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import Satisfied, rate_limited
from tidegate.handlers.scheduling.dataset_runs import Step, dataset_run
from tidegate.handlers.scheduling.input_deadline import deadline_of
from tidegate.handlers.scheduling.inputs import inputs_of
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.schemas.effect.dag import DiscardEvents, NoteSchedule
from tidegate.schemas.explain.reasons import InputsMissing, OutsideWindow
from tidegate.schemas.view import DagView

SKIPPED = "the inputs beside it had not arrived by the deadline"


def past_deadline(dag: DagView, now: datetime) -> Step:
    """Skip, or say so, once."""
    spec = dag.graph.timing.deadline
    due = _missed(dag, now)
    if spec is None or due is None or spec.fallback == "run_anyway":
        return dag
    dealt = msgspec.structs.replace(dag, deadline_at=due)
    if spec.fallback == "alert":
        reason = f"{_said(due)}: they are still awaited"
        yield NoteSchedule(dag.graph.dag_id, "deadline_alert", reason, now)
        yield from notify_late_inputs(dag.graph, due, now, reason)
        return dealt
    yield NoteSchedule(dag.graph.dag_id, "deadline_skip", f"{_said(due)}: no run", now)
    if dag.pending:
        yield DiscardEvents(dag.graph.dag_id, dag.pending, SKIPPED)
    return msgspec.structs.replace(dealt, pending=(), inputs=())


def fallback_run(dag: DagView, id_: int, now: datetime) -> Step | None:
    """A run all the same, if there is to be one now. It waits for room, and for the time that is to lie between runs."""
    spec = dag.graph.timing.deadline
    if spec is None or spec.fallback != "run_anyway" or dag.is_held or not has_capacity(dag):
        return None
    due = _missed(dag, now)
    if due is None or rate_limited(dag.graph, now, dag.dataset_run_at):
        return None
    return _run_anyway(dag, id_, due, now)


def _run_anyway(dag: DagView, id_: int, due: datetime, now: datetime) -> Step:
    yield NoteSchedule(dag.graph.dag_id, "deadline_run", f"{_said(due)}: a run all the same", now)
    dealt = msgspec.structs.replace(dag, deadline_at=due)
    return (yield from dataset_run(dealt, id_, Satisfied(dag.pending), now, due))


def _said(due: datetime) -> str:
    return f"the inputs had not arrived by {due.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _missed(dag: DagView, now: datetime) -> datetime | None:
    """The deadline that has passed while the inputs were not there."""
    if (
        dag.graph.timing.deadline is None
        or dag.unread
        or not isinstance(condition_result(dag, now), InputsMissing | OutsideWindow)
    ):
        return None
    due = deadline_of(dag, inputs_of(dag, now), now)
    return due if due is not None and due <= now else None


def watched(dag: DagView, now: datetime) -> DagView:
    """Deadlines at a time of day count from when they are first seen."""
    deadline = dag.graph.timing.deadline
    is_new = deadline is not None and deadline.at is not None and dag.deadline_at is None
    return msgspec.structs.replace(dag, deadline_at=now) if is_new else dag
