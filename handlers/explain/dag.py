"""Explains why a DAG has no new run: its gates, closed by the functions that decide, and the smallest change that opens them.

A change is found by trying it on the functions that decide.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.handlers.explain.gate import (
    GateFacts,
    Outage,
    daemons_gate,
    file_gate,
    gate,
    lock_gates,
    outage_gate,
    pause_gate,
    run_limit_gate,
    shared_change,
)
from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import evaluated
from tidegate.handlers.scheduling.input_deadline import input_deadline
from tidegate.handlers.scheduling.inputs import inputs_of, inspect_events
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.round_robin import Source
from tidegate.handlers.scheduling.run_limit import blockers_of_inactivity, run_limit_reached
from tidegate.handlers.scheduling.timetable import catchup_resumes_at, is_due, upcoming_tick
from tidegate.schemas.conditions.condition import (
    ANY_TIME,
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    Leaf,
    PatternRef,
    Timing,
    describe_condition,
    inputs,
)
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.error import DUTY, KAFKA, UNREAD, blame
from tidegate.schemas.explain.facts import DagStatus
from tidegate.schemas.explain.gates import DagExplanation, Gate, closed
from tidegate.schemas.explain.reasons import (
    ConditionBroken,
    DagPaused,
    DagReason,
    DagStale,
    Debouncing,
    InputsMissing,
    IntakeHalted,
    MaxActiveRuns,
    NoSchedule,
    NotYetDue,
    OutsideWindow,
    RateLimited,
    Reason,
    RunsAhead,
    TimetableExhausted,
)
from tidegate.schemas.explain.remedy import Change, CorrectCondition, EndRun, Publish, RaiseRuns, RestoreServer, Resume, Trigger
from tidegate.schemas.queries import facts as fact_rows
from tidegate.schemas.queries import leases, row_holders
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Incident, JobRow
from tidegate.schemas.queries.row_holders import HeldRow
from tidegate.schemas.timetable.tick import was_missed
from tidegate.schemas.view import DagView, Input

Gates = tuple[Gate[DagReason], ...]

EVENTS_TOPIC = "dataset-updated"


class DagFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG with its pending events. `incidents` are halted partitions; `held_row` is one that another session holds."""

    now: datetime
    dag: DagView
    status: DagStatus
    incidents: Sequence[Incident] = ()
    daemons: Sequence[JobRow] = ()
    held_row: HeldRow | None = None

    def inputs(self) -> tuple[Input, ...]:
        """The pending events that count for the condition. Raises FilterError for a condition that cannot be evaluated."""
        return inputs_of(self.dag, self.now)


async def load(db: Db, dag_id: str) -> DagFacts:
    """The DAG must exist."""
    return DagFacts(
        now=db.now,
        dag=await fact_rows.dag_view(db, dag_id),
        status=await fact_rows.dag_status(db, dag_id),
        incidents=await leases.incidents(db),
        daemons=await leases.live(db),
        held_row=await row_holders.of_dag(db, dag_id),
    )


def explain_dag(facts: DagFacts) -> DagExplanation:
    """Why the DAG has no new run. Raises DagFaultError for a row that cannot be explained, such as one with an infinite time."""
    with blame(facts.dag.graph.dag_id):
        return _explained(msgspec.structs.replace(facts, dag=_inspected(facts.dag, facts.now)))


def _inspected(dag: DagView, now: datetime) -> DagView:
    """The DAG with its inputs: each gate asks for them. The gate of a condition that cannot be evaluated says so."""
    found = evaluated(lambda: inspect_events(dag.graph, dag.pending, now).inputs)
    return dag if isinstance(found, ConditionBroken) else msgspec.structs.replace(dag, inputs=found)


def _explained(facts: DagFacts) -> DagExplanation:
    by_datasets, by_time = tuple(condition_gates(facts)), tuple(timetable_gates(facts))
    own, services = tuple(dag_gates(facts)), tuple(service_gates(facts))
    needed, instead = _needed(facts, by_datasets, by_time)
    queue = queue_gate(facts, others_open=not closed((*needed, *own)))
    shared = (*own, queue, *services)
    return DagExplanation(
        dag_id=facts.dag.graph.dag_id,
        starts=bool(facts.daemons) and facts.held_row is None and would_run(facts.dag, facts.now),
        gates=(*by_datasets, *by_time, *shared),
        change=dag_changes(facts, (*needed, *shared)),
        instead=dag_changes(facts, (*instead, *shared)) if instead else (),
    )


def _needed(facts: DagFacts, by_datasets: Gates, by_time: Gates) -> tuple[Gates, Gates]:
    """The gates that have to open, and the alternative to them where datasets and time each make runs."""
    if not by_datasets or not by_time or facts.dag.graph.requires_both:
        return (*by_datasets, *by_time), ()
    if not closed(by_datasets) or not closed(by_time):
        return (), ()
    return by_datasets, by_time


def condition_gates(facts: DagFacts) -> Iterator[Gate[DagReason]]:
    """The condition over the pending events, and its timing."""
    if facts.dag.graph.schedule is None:
        return
    result = condition_result(facts.dag, facts.now)
    reason = result if isinstance(result, Reason) else None
    of_timing = reason if isinstance(reason, Debouncing | RateLimited) else None
    of_condition = None if of_timing else reason
    is_broken = isinstance(reason, ConditionBroken)  # maybe by the times of its events
    since = None if is_broken else min((event.arrived_at for event in facts.dag.pending), default=None)
    yield gate("condition", of_condition, _condition_facts(facts, facts.dag.graph.schedule, reason), since=since)
    if facts.dag.graph.timing != ANY_TIME:
        yield gate("timing", of_timing, _timing_facts(facts, reason), reached=of_condition is None)


def timetable_gates(facts: DagFacts) -> Iterator[Gate[DagReason]]:
    if facts.dag.graph.timetable is None:
        return
    tick, last = upcoming_tick(facts.dag, facts.now), facts.dag.last_tick
    reason: TimetableExhausted | NotYetDue | None = None
    if tick is None:
        reason = TimetableExhausted()
    elif not is_due(facts.dag, tick, facts.now):
        resumes_at = catchup_resumes_at(facts.dag, facts.now) if was_missed(tick, facts.now) else None
        reason = NotYetDue(resumes_at or tick.run_after)
    yield gate("timetable", reason, {"next": tick and tick.run_after, "last_date": last and last.logical_date})


def dag_gates(facts: DagFacts) -> Iterator[Gate[DagReason]]:
    dag, status = facts.dag, facts.status
    if dag.graph.schedule is None and dag.graph.timetable is None:
        yield gate("schedule", NoSchedule())
    reasons = {type(reason): reason for reason in blockers_of_inactivity(is_paused=dag.is_paused, is_stale=dag.is_stale)}
    yield pause_gate(status, reasons.get(DagPaused))
    yield file_gate(status, reasons.get(DagStale))
    limit = dag.graph.max_active_runs
    yield run_limit_gate(status, run_limit_reached(dag.running, limit), dag.running, limit)


def service_gates(facts: DagFacts) -> Iterator[Gate[DagReason]]:
    """The services around a DAG: the intake of events, for DAGs with datasets, daemons, and Postgres where a row is locked."""
    if facts.dag.graph.schedule is not None:
        yield _intake_gate(facts)
    yield daemons_gate(facts.daemons)
    yield from lock_gates(facts.held_row)


def _intake_gate(facts: DagFacts) -> Gate[DagReason]:
    halted = [incident for incident in facts.incidents if EVENTS_TOPIC in incident.partition]
    if halted:
        since = min((incident.at for incident in halted if incident.at), default=None)
        return gate("intake", IntakeHalted(tuple(incident.partition for incident in halted)), since=since)
    return outage_gate("intake", _intake_outage(facts))


def _intake_outage(facts: DagFacts) -> Outage | None:
    """Kafka, if no daemon reaches it; else what one daemon alone could read: it has the leases of its partitions."""
    outages = [daemon.away.get(KAFKA) for daemon in facts.daemons]
    if (outage := outages[0] if outages else None) and all(outages):
        return KAFKA, outage
    unread = [entry for daemon in facts.daemons for entry in daemon.away.items() if _is_of_intake(entry[0])]
    return min(unread, key=lambda entry: entry[0], default=None)


def _is_of_intake(server: str) -> bool:
    """Whether an outage is that of a partition of dataset events, or of the duty that reads them."""
    return server == f"{DUTY}ingest {EVENTS_TOPIC}" or (server.startswith(UNREAD) and EVENTS_TOPIC in server)


def queue_gate(facts: DagFacts, *, others_open: bool) -> Gate[DagReason]:
    """Queued runs take turns with runs by datasets and by time. Closed where they use up the remaining run limit."""
    ahead = others_open and facts.dag.queued > 0 and not would_run(facts.dag, facts.now)
    return gate("queued runs", RunsAhead(facts.dag.queued) if ahead else None, {"queued": facts.dag.queued or None})


def would_run(dag: DagView, now: datetime) -> bool:
    """Whether a decision about the DAG would make a run by datasets or by time now."""
    return any(isinstance(effect, InsertRun) for effect in schedule_next_runs(dag, now))


def _condition_facts(facts: DagFacts, schedule: Condition, reason: Reason | None) -> GateFacts:
    pending = {"pending": len(facts.dag.pending) or None, "version": facts.status.version}
    if isinstance(reason, ConditionBroken):
        return pending
    arrived = {leaf for input_ in facts.inputs() for leaf in input_.leaves}
    wanted = inputs(schedule)
    return {"inputs": f"{sum(leaf in arrived for leaf in wanted)} of {len(wanted)}", **pending}


def _timing_facts(facts: DagFacts, reason: Reason | None) -> GateFacts:
    timing, last = facts.dag.graph.timing, facts.dag.dataset_run_at
    limits = {name: getattr(timing, name) for name in Timing.__struct_fields__ if name != "deadline"}
    if timing.deadline is None or isinstance(reason, ConditionBroken):
        return {**limits, "last_run": last}
    due = input_deadline(facts.dag, facts.inputs(), facts.now)
    return {**limits, "last_run": last, "deadline": due, "then": timing.deadline.fallback}


def dag_changes(facts: DagFacts, gates: Sequence[Gate[DagReason]]) -> tuple[Change, ...]:
    """The changes that open the closed gates. While events cannot be read, what is missing may have been published."""
    changes = tuple(_change(facts, gate.reason) for gate in gates if gate.reason)
    is_unread = any(isinstance(change, RestoreServer) for change in changes)
    return tuple(change for change in changes if not (is_unread and isinstance(change, Publish)))


def _change(facts: DagFacts, reason: DagReason) -> Change:
    match reason:
        case InputsMissing() | OutsideWindow():
            return _publish(facts)
        case ConditionBroken():
            return CorrectCondition(facts.status.path)
        case TimetableExhausted() | NoSchedule():
            return Trigger(facts.dag.graph.dag_id)
        case MaxActiveRuns() | RunsAhead():
            return _more_runs(facts)
        case IntakeHalted(partitions):
            return Resume(partitions)
        case _:
            return shared_change(reason, facts.dag.graph.dag_id, facts.status)


def fewest(condition: Condition, arrived: frozenset[Leaf]) -> tuple[Leaf, ...]:
    """The inputs that the condition lacks besides `arrived`; of alternatives the one that lacks fewest."""
    match condition:
        case DatasetRef() | PatternRef():
            return () if condition in arrived else (condition,)
        case AllOf(of):
            return _union(fewest(operand, arrived) for operand in of)
        case AnyOf(of):
            return min((fewest(operand, arrived) for operand in of), key=len)
        case _:
            return _union(sorted((fewest(operand, arrived) for operand in condition.of), key=len)[: condition.k])


def _union(parts: Iterable[tuple[Leaf, ...]]) -> tuple[Leaf, ...]:
    return tuple(dict.fromkeys(leaf for part in parts for leaf in part))


def _publish(facts: DagFacts) -> Change:
    """New events. Events that are too old for the window count as missing."""
    schedule, within_s = facts.dag.graph.schedule, facts.dag.graph.timing.within_s
    since = None if within_s is None else facts.now - timedelta(seconds=within_s)
    recent = [input_ for input_ in facts.inputs() if since is None or input_.event.time >= since]
    wanted = fewest(schedule, frozenset(leaf for input_ in recent for leaf in input_.leaves)) if schedule is not None else ()
    plain = tuple(leaf.uri for leaf in wanted if isinstance(leaf, DatasetRef) and not leaf.where)
    return Publish(tuple(describe_condition(leaf) for leaf in wanted), plain)


def _more_runs(facts: DagFacts) -> Change:
    """A continuous DAG has one run at a time: its limit cannot be raised."""
    graph, running = facts.dag.graph, tuple(facts.status.running)
    if graph.is_continuous:
        return EndRun(graph.dag_id, running)
    return RaiseRuns(graph.dag_id, facts.status.path, runs_needed(facts), running)


def runs_needed(facts: DagFacts) -> int:
    """The run limit that admits one more run by datasets or by time. Queued runs may start before it, by their turns."""
    dag = facts.dag
    limits = range(dag.running + 1, dag.running + min(dag.queued, len(Source)) + 2)
    free = msgspec.structs.replace(dag, is_paused=False, is_stale=False)
    # A limit that admits one more run starts those of the lower limits, too.
    enough = bisect_left(limits, 1, key=lambda limit: int(would_run(_with_limit(free, limit), facts.now)))
    return limits[enough] if enough < len(limits) else dag.running + 1


def _with_limit(dag: DagView, limit: int) -> DagView:
    return msgspec.structs.replace(dag, graph=msgspec.structs.replace(dag.graph, max_active_runs=limit))
