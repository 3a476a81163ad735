"""The smallest change that makes a DAG's next run, found by trying it on the functions that decide."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

import msgspec

from tidegate.handlers.explain.dag_facts import DagFacts
from tidegate.handlers.explain.dag_gates import would_run
from tidegate.handlers.explain.remedy import common_change
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, Leaf, PatternRef, describe_condition
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import (
    ConditionBroken,
    InputsMissing,
    IntakeHalted,
    MaxActiveRuns,
    NoSchedule,
    OutsideWindow,
    Reason,
    RunsAhead,
    TimetableExhausted,
)
from tidegate.schemas.explain.remedy import Change, EndRun, MendFile, Publish, RaiseRuns, Resume, Trigger
from tidegate.schemas.view import DagView


def dag_changes(facts: DagFacts, gates: Sequence[Gate]) -> tuple[Change, ...]:
    """The changes that open the closed gates."""
    return tuple(_change(facts, gate.reason) for gate in gates if gate.reason)


def _change(facts: DagFacts, reason: Reason) -> Change:
    if isinstance(reason, IntakeHalted):
        return Resume(reason.partitions)
    return common_change(reason, facts.dag.graph.dag_id, facts.status) or _CHANGES[type(reason)](facts)


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
    """The run limit that admits one more run by datasets or by time. Queued runs may start before it."""
    dag = facts.dag
    limits = range(dag.running + 1, dag.running + dag.queued + 2)
    free = msgspec.structs.replace(dag, is_paused=False, is_stale=False)
    enough = (limit for limit in limits if would_run(_with_limit(free, limit), facts.now))
    return next(enough, dag.running + 1)


def _with_limit(dag: DagView, limit: int) -> DagView:
    return msgspec.structs.replace(dag, graph=msgspec.structs.replace(dag.graph, max_active_runs=limit))


def _trigger(facts: DagFacts) -> Change:
    return Trigger(facts.dag.graph.dag_id)


_CHANGES: Mapping[type[Reason], Callable[[DagFacts], Change]] = {
    InputsMissing: _publish,
    OutsideWindow: _publish,
    ConditionBroken: lambda facts: MendFile(facts.status.path),
    TimetableExhausted: _trigger,
    NoSchedule: _trigger,
    MaxActiveRuns: _more_runs,
    RunsAhead: _more_runs,
}
