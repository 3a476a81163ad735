"""When the clock is to look at a DAG again because of the events that wait for it."""

from collections.abc import Iterator
from datetime import datetime

from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import ConditionResult, Satisfied, rate_limited
from tidegate.handlers.scheduling.input_deadline import deadline_of, ends
from tidegate.handlers.scheduling.inputs import inputs_of, sift
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.schemas.explain.reasons import ConditionBroken, Debouncing, RateLimited
from tidegate.schemas.view import DagView


def looks(before: DagView, dag: DagView, now: datetime) -> Iterator[datetime]:
    """The moments from which on something else may be decided although nothing new comes; a look too many does no harm.

    What waits expires also while no run may start.
    """
    result = condition_result(dag, now)
    if isinstance(result, ConditionBroken):
        return
    found = sift(dag.graph, dag.arrived, now).inputs if dag.unread else inputs_of(dag, now)
    yield from ends(dag, found)
    if dag.unread and before.due_at is not None and now < before.due_at:
        yield before.due_at
    if dag.is_held:
        return
    due = deadline_of(dag, found, now)
    if due is not None and now < due:
        yield due
    if has_capacity(dag) and not dag.graph.requires_both:
        yield from _with_room(dag, result, now, overdue=due is not None and due <= now)


def _with_room(dag: DagView, result: ConditionResult, now: datetime, *, overdue: bool) -> Iterator[datetime]:
    match result:
        case Debouncing(until) | RateLimited(until):
            yield until
        case Satisfied():
            yield now  # There were not ids enough for all runs.
        case _:
            soon = rate_limited(dag.graph, now, dag.dataset_run_at)
            if overdue:
                yield soon.until if soon else now
