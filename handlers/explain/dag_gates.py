"""The gates between a DAG and its next run by datasets or by time."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate.handlers.explain.dag_facts import DagFacts
from tidegate.handlers.explain.gate import daemons_gate, file_gate, gate, pause_gate, run_limit_gate
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.input_deadline import input_deadline
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.run_limit import held_by, run_limit_reached
from tidegate.handlers.scheduling.timetable import catchup_resumes_at, is_due, upcoming_tick
from tidegate.schemas.conditions.condition import ANY_TIME, Condition, inputs
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import (
    ConditionBroken,
    DagPaused,
    DagStale,
    Debouncing,
    IntakeHalted,
    NoSchedule,
    NotYetDue,
    RateLimited,
    Reason,
    RunsAhead,
    ServerUnreachable,
    TimetableExhausted,
)
from tidegate.schemas.view import DagView

INTAKE = "Kafka"
"""The server that events come from."""

EVENTS_TOPIC = "dataset-updated"


def condition_gates(facts: DagFacts) -> Iterator[Gate]:
    """The condition over the pending events, and its timing."""
    if facts.dag.graph.schedule is None:
        return
    result = condition_result(facts.dag, facts.now)
    reason = result if isinstance(result, Reason) else None
    of_timing = reason if isinstance(reason, Debouncing | RateLimited) else None
    of_condition = None if of_timing else reason
    since = min((event.arrived_at for event in facts.dag.pending), default=None)
    yield gate("condition", of_condition, _condition_facts(facts, facts.dag.graph.schedule, reason), since=since)
    if facts.dag.graph.timing != ANY_TIME:
        yield gate("timing", of_timing, _timing_facts(facts, reason), reached=of_condition is None)


def timetable_gates(facts: DagFacts) -> Iterator[Gate]:
    if facts.dag.graph.timetable is None:
        return
    tick, last = upcoming_tick(facts.dag, facts.now), facts.dag.last_tick
    reason: Reason | None = None
    if tick is None:
        reason = TimetableExhausted()
    elif not is_due(facts.dag, tick, facts.now):
        reason = NotYetDue(catchup_resumes_at(facts.dag, facts.now) or tick.run_after)
    yield gate("timetable", reason, {"next": tick and tick.run_after, "last_date": last and last.logical_date})


def dag_gates(facts: DagFacts) -> Iterator[Gate]:
    dag, status = facts.dag, facts.status
    if dag.graph.schedule is None and dag.graph.timetable is None:
        yield gate("schedule", NoSchedule())
    held = {type(reason): reason for reason in held_by(is_paused=dag.is_paused, is_stale=dag.is_stale)}
    yield pause_gate(status, held.get(DagPaused))
    yield file_gate(status, held.get(DagStale))
    limit = dag.graph.max_active_runs
    yield run_limit_gate(status, run_limit_reached(dag.running, limit), dag.running, limit)


def service_gates(facts: DagFacts) -> Iterator[Gate]:
    """The services around a DAG: the intake of events, for DAGs with datasets, and daemons."""
    if facts.dag.graph.schedule is not None:
        yield _intake_gate(facts)
    yield daemons_gate(facts.daemons)


def _intake_gate(facts: DagFacts) -> Gate:
    halted = [incident for incident in facts.incidents if EVENTS_TOPIC in incident.partition]
    if halted:
        since = min((incident.at for incident in halted if incident.at), default=None)
        return gate("intake", IntakeHalted(tuple(incident.partition for incident in halted)), since=since)
    outages = [daemon.away.get(INTAKE) for daemon in facts.daemons]
    if (outage := outages[0] if outages else None) and all(outages):
        return gate("intake", ServerUnreachable(INTAKE, outage.error), since=outage.since)
    return gate("intake")


def queue_gate(facts: DagFacts, *, others_open: bool) -> Gate:
    """Queued runs take turns with runs by datasets and by time. Closed where they use up the remaining run limit."""
    ahead = others_open and facts.dag.queued > 0 and not would_run(facts.dag, facts.now)
    return gate("queued runs", RunsAhead(facts.dag.queued) if ahead else None, {"queued": facts.dag.queued or None})


def would_run(dag: DagView, now: datetime) -> bool:
    """Whether a decision about the DAG would make a run by datasets or by time now."""
    return any(isinstance(effect, InsertRun) for effect in schedule_next_runs(dag, now))


def _condition_facts(facts: DagFacts, schedule: Condition, reason: Reason | None) -> Mapping[str, Any]:
    pending = {"pending": len(facts.dag.pending) or None, "version": facts.status.version}
    if isinstance(reason, ConditionBroken):
        return pending
    arrived = {leaf for input_ in facts.inputs() for leaf in input_.leaves}
    wanted = inputs(schedule)
    return {"inputs": f"{sum(leaf in arrived for leaf in wanted)} of {len(wanted)}", **pending}


def _timing_facts(facts: DagFacts, reason: Reason | None) -> Mapping[str, Any]:
    timing, last = facts.dag.graph.timing, facts.dag.dataset_run_at
    limits = {"within_s": timing.within_s, "quiet_for_s": timing.quiet_for_s, "min_interval_s": timing.min_interval_s}
    if timing.deadline is None or isinstance(reason, ConditionBroken):
        return {**limits, "last_run": last}
    due = input_deadline(facts.dag, facts.inputs(), facts.now)
    return {**limits, "last_run": last, "deadline": due, "then": timing.deadline.fallback}
