"""The reasons against a dataset run of a DAG now. `dags why-not` prints the reasons that the scheduler acts on."""

from collections.abc import Iterator
from datetime import datetime

from tidegate.handlers.scheduling.condition import ConditionResult, Satisfied, evaluate_condition, evaluated
from tidegate.handlers.scheduling.input_deadline import input_deadline
from tidegate.handlers.scheduling.inputs import inputs_of
from tidegate.handlers.scheduling.run_limit import blockers_of_inactivity, run_limit_reached
from tidegate.schemas.conditions.condition import Condition, met_by_uris
from tidegate.schemas.explain.reasons import AwaitsTick, InputsMissing, NoSchedule, Reason
from tidegate.schemas.view import DagView


def next_dataset_run(dag: DagView, now: datetime) -> Satisfied | Reason:
    """The events that a run consumes now, or the first reason why there is no run."""
    reason = next(blockers(dag), None)
    return condition_result(dag, now) if reason is None else reason


def blockers(dag: DagView) -> Iterator[Reason]:
    """Every reason against a dataset run, except those of the condition."""
    if dag.graph.schedule is None:
        yield NoSchedule()
    yield from blockers_of_inactivity(is_paused=dag.is_paused, is_stale=dag.is_stale)
    if reached := run_limit_reached(dag.running, dag.graph.max_active_runs):
        yield reached
    if dag.graph.requires_both:
        yield AwaitsTick()


def condition_result(dag: DagView, now: datetime) -> ConditionResult:
    """The result of the condition over the pending events; other blockers are ignored."""
    if dag.graph.schedule is not None and not dag.graph.inspects_events:
        return _by_datasets(dag, dag.graph.schedule)

    def evaluate() -> ConditionResult:
        arrived = inputs_of(dag, now)
        due = input_deadline(dag, arrived, now)
        overdue = due is not None and due <= now
        return evaluate_condition(dag.graph, arrived, now, dag.dataset_run_at, overdue=overdue, newest_at=dag.newest_at)

    return evaluated(evaluate)


def _by_datasets(dag: DagView, schedule: Condition) -> Satisfied | InputsMissing:
    """The usual case: the condition depends on the datasets of the events only."""
    pending = {event.uri for event in dag.pending}
    return (
        Satisfied(dag.pending)
        if pending and met_by_uris(schedule, pending)
        else InputsMissing(tuple(sorted(dag.graph.dataset_uris - pending)))
    )
