"""The gates between a DAG and its next run by events or by time, each asked of what decides about it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate.handlers.explain.dag_facts import FoundDag
from tidegate.handlers.explain.run_gates import daemons_gate, gate
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import ConditionResult
from tidegate.handlers.scheduling.input_deadline import deadline_of
from tidegate.handlers.scheduling.next_runs import settle
from tidegate.handlers.scheduling.run_limit import held_by, run_limit_reached
from tidegate.handlers.scheduling.timetable import following, is_due, paced_until
from tidegate.schemas.conditions.condition import ANY_TIME, inputs
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import Debouncing, RateLimited, Reason
from tidegate.schemas.view import DagView

INTAKE = "Kafka"
"""The server that events come from."""

EVENTS_TOPIC = "dataset-updated"
_NO_REASON: Reason | None = None


def gates_of_events(found: FoundDag) -> Iterator[Gate]:
    """What waits for it, held against its condition, and when that counts."""
    if found.dag.graph.schedule is None:
        return
    result = condition_result(found.dag, found.now)
    reason = result if isinstance(result, Reason) else None
    of_timing = reason if isinstance(reason, Debouncing | RateLimited) else None
    of_condition = None if of_timing else reason
    since = min((event.arrived_at for event in found.dag.pending), default=None)
    yield gate("condition", of_condition, _condition_facts(found, result), since=since)
    if found.dag.graph.timing != ANY_TIME:
        yield gate("timing", of_timing, _timing_facts(found, result), reached=of_condition is None)


def gates_of_time(found: FoundDag) -> Iterator[Gate]:
    """Whether its timetable has come to a moment without a run."""
    if found.dag.graph.timetable is None:
        return
    tick, reason = following(found.dag, found.now), _NO_REASON
    if tick is None:
        reason = reasons.TimetableExhausted()
    elif not is_due(found.dag, tick, found.now):
        reason = reasons.NotYetDue(paced_until(found.dag, found.now) or tick.run_after)
    last = found.dag.last_tick
    yield gate("timetable", reason, {"next": tick and tick.run_after, "last_date": last and last.logical_date})


def gates_of_dag(found: FoundDag) -> Iterator[Gate]:
    """Whether anything of it may start."""
    dag, around = found.dag, found.around
    if dag.graph.schedule is None and dag.graph.timetable is None:
        yield gate("schedule", reasons.NoSchedule())
    held = {type(reason): reason for reason in held_by(is_paused=dag.is_paused, is_stale=dag.is_stale)}
    yield gate("pause", held.get(reasons.DagPaused), since=around.paused_at if dag.is_paused else None)
    broken = {"error": around.import_error, "broken_since": around.broken_since}
    file = {"file": around.path, "version": around.version, **broken}
    yield gate("DAG file", held.get(reasons.DagStale), file, since=around.stale_at if dag.is_stale else None)
    limit = dag.graph.max_active_runs
    running = {"running": dag.running, "max_active_runs": limit, "runs": tuple(around.running)}
    yield gate("run limit", run_limit_reached(dag.running, limit), running)


def gates_around(found: FoundDag) -> Iterator[Gate]:
    """Whether events come in, and whether anybody decides."""
    if found.dag.graph.schedule is not None:
        halted = tuple(each.partition for each in found.incidents if EVENTS_TOPIC in each.partition)
        away = [daemon.away.get(INTAKE) for daemon in found.daemons]
        lost = away[0] if away and all(away) else None
        unreachable = reasons.ServerUnreachable(INTAKE, lost.error) if lost else None
        since = min((each.at for each in found.incidents if each.at and each.partition in halted), default=None)
        yield gate(
            "intake", reasons.IntakeHalted(halted) if halted else unreachable, since=since or (lost.since if lost else None)
        )
    yield daemons_gate(found.daemons)


def queue_gate(found: FoundDag, *, others_open: bool) -> Gate:
    """Runs asked for by hand take turns with all others: closed where it is their turn and there is room for no more."""
    ahead = others_open and found.dag.queued > 0 and not would_run(found.dag, found.now)
    return gate("queued runs", reasons.RunsAhead(found.dag.queued) if ahead else None, {"queued": found.dag.queued or None})


def would_run(dag: DagView, now: datetime) -> bool:
    """Whether who decides about the DAG would now make a run of events or of a tick."""
    return any(isinstance(effect, InsertRun) for effect in settle(dag, now))


def _condition_facts(found: FoundDag, result: ConditionResult) -> Mapping[str, Any]:
    pending = {"pending": len(found.dag.pending) or None, "version": found.around.version}
    if isinstance(result, reasons.ConditionBroken) or found.dag.graph.schedule is None:
        return pending
    there = {leaf for each in found.inputs() for leaf in each.leaves}
    wanted = inputs(found.dag.graph.schedule)
    return {"inputs": f"{sum(leaf in there for leaf in wanted)} of {len(wanted)}", **pending}


def _timing_facts(found: FoundDag, result: ConditionResult) -> Mapping[str, Any]:
    timing, last = found.dag.graph.timing, found.dag.dataset_run_at
    limits = {"within_s": timing.within_s, "quiet_for_s": timing.quiet_for_s, "min_interval_s": timing.min_interval_s}
    if timing.deadline is None or isinstance(result, reasons.ConditionBroken):
        return {**limits, "last_run": last}
    due = deadline_of(found.dag, found.inputs(), found.now)
    return {**limits, "last_run": last, "deadline": due, "then": timing.deadline.fallback}
