"""The fallback of a missed input deadline: run anyway, skip, or alert."""

from datetime import datetime

import msgspec

from tidegate.handlers.runs.notifications import notify_late_inputs
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import Satisfied, rate_limited
from tidegate.handlers.scheduling.dataset_runs import Step, start_dataset_run
from tidegate.handlers.scheduling.input_deadline import input_deadline
from tidegate.handlers.scheduling.inputs import inputs_of
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.run_size import limit_events
from tidegate.schemas.effect.dag import DiscardEvents, NoteSchedule
from tidegate.schemas.explain.reasons import InputsMissing, OutsideWindow
from tidegate.schemas.text import utc
from tidegate.schemas.view import DagView

SKIPPED = "the other inputs had not arrived by the deadline"


def start_daily_deadlines(dag: DagView, now: datetime) -> DagView:
    """Set `deadline_at` at the first decision: earlier daily deadlines do not count."""
    deadline = dag.graph.timing.deadline
    is_new = deadline is not None and deadline.at is not None and dag.deadline_at is None
    return msgspec.structs.replace(dag, deadline_at=now) if is_new else dag


def skip_or_alert(dag: DagView, now: datetime) -> Step:
    """The effects of a missed deadline with the fallback `skip` or `alert`, once per deadline."""
    spec = dag.graph.timing.deadline
    missed = _missed_deadline(dag, now)
    if spec is None or missed is None or spec.fallback == "run_anyway":
        return dag
    decided = msgspec.structs.replace(dag, deadline_at=missed)
    if spec.fallback == "alert":
        reason = f"{_late(missed)}: the DAG still waits for them"
        yield NoteSchedule(dag.graph.dag_id, "deadline_alert", reason, now)
        yield from notify_late_inputs(dag.graph, missed, now, reason)
        return decided
    yield NoteSchedule(dag.graph.dag_id, "deadline_skip", f"{_late(missed)}: no run", now)
    if dag.pending:
        yield DiscardEvents(dag.graph.dag_id, dag.pending, SKIPPED)
    # The rest may be late, too.
    return msgspec.structs.replace(dag if dag.more_pending else decided, pending=(), inputs=())


def run_anyway(dag: DagView, id_: int, now: datetime) -> Step | None:
    """Starts a run of the inputs that have arrived; None without a missed deadline, without capacity, and while rate limited."""
    spec = dag.graph.timing.deadline
    if spec is None or spec.fallback != "run_anyway" or dag.is_inactive or not has_capacity(dag):
        return None
    missed = _missed_deadline(dag, now)
    if missed is None or rate_limited(dag.graph, now, dag.dataset_run_at):
        return None
    return _start_anyway(dag, id_, missed, now)


def _start_anyway(dag: DagView, id_: int, missed: datetime, now: datetime) -> Step:
    yield NoteSchedule(dag.graph.dag_id, "deadline_run", f"{_late(missed)}: the run starts without them", now)
    arrived = Satisfied(dag.pending)
    is_last = not limit_events(dag, arrived).left
    decided = msgspec.structs.replace(dag, deadline_at=missed) if is_last else dag  # Else the rest is late, too.
    return (yield from start_dataset_run(decided, id_, arrived, now, missed))


def _late(deadline: datetime) -> str:
    return f"the inputs had not arrived by {utc(deadline)}"


def _missed_deadline(dag: DagView, now: datetime) -> datetime | None:
    """The last passed deadline, if the condition lacks inputs; else None."""
    if dag.graph.timing.deadline is None or dag.unread:
        return None
    if not isinstance(condition_result(dag, now), InputsMissing | OutsideWindow):
        return None
    deadline = input_deadline(dag, inputs_of(dag, now), now)
    return deadline if deadline is not None and deadline <= now else None
