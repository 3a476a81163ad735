"""The smallest change that makes a DAG's next run, found by asking those that decide."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from tidegate.handlers.explain.dag_facts import FoundDag
from tidegate.handlers.explain.dag_gates import would_run
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, Leaf, PatternRef, describe_condition
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.view import DagView


def dag_changes(found: FoundDag, gates: Sequence[Gate]) -> tuple[Change, ...]:
    """What opens the closed ones of these gates."""
    return tuple(change for gate in gates if gate.reason for change in _CHANGES[type(gate.reason)](found, gate.reason))


def fewest(condition: Condition, there: frozenset[Leaf]) -> tuple[Leaf, ...]:
    """Inputs without which the condition does not hold, where these are there: of alternatives those that lack least."""
    match condition:
        case DatasetRef() | PatternRef():
            return () if condition in there else (condition,)
        case AllOf(of):
            return _union(fewest(operand, there) for operand in of)
        case AnyOf(of):
            return min((fewest(operand, there) for operand in of), key=len)
        case _:
            return _union(sorted((fewest(operand, there) for operand in condition.of), key=len)[: condition.k])


def _union(parts: Iterable[tuple[Leaf, ...]]) -> tuple[Leaf, ...]:
    return tuple(dict.fromkeys(leaf for part in parts for leaf in part))


def _publish(found: FoundDag, _reason: Any) -> Iterator[Change]:
    """Events that happen now; what is there and happened too long ago to go with them is missing, too."""
    schedule, within_s = found.dag.graph.schedule, found.dag.graph.timing.within_s
    since = None if within_s is None else found.now - timedelta(seconds=within_s)
    there = frozenset(leaf for each in found.inputs() if since is None or each.event.time >= since for leaf in each.leaves)
    wanted = fewest(schedule, there) if schedule is not None else ()
    plain = tuple(leaf.uri for leaf in wanted if isinstance(leaf, DatasetRef) and not leaf.where)
    yield remedy.Publish(tuple(describe_condition(leaf) for leaf in wanted), plain)


def _mend(found: FoundDag, _reason: Any) -> Iterator[Change]:
    yield remedy.MendFile(found.around.path)


def _wait(_found: FoundDag, reason: reasons.Debouncing | reasons.RateLimited) -> Iterator[Change]:
    yield remedy.Wait(reason.until)


def _wait_for_tick(_found: FoundDag, reason: reasons.NotYetDue) -> Iterator[Change]:
    yield remedy.Wait(reason.at)


def _trigger(found: FoundDag, _reason: Any) -> Iterator[Change]:
    yield remedy.Trigger(found.dag.graph.dag_id)


def _unpause(found: FoundDag, _reason: Any) -> Iterator[Change]:
    yield remedy.Unpause(found.dag.graph.dag_id)


def _restore(found: FoundDag, _reason: Any) -> Iterator[Change]:
    yield remedy.RestoreFile(found.dag.graph.dag_id, found.around.path)


def _more_runs(found: FoundDag, _reason: Any) -> Iterator[Change]:
    """Where runs follow each other's ends, there is never room for more."""
    graph, runs = found.dag.graph, tuple(found.around.running)
    if graph.is_continuous:
        yield remedy.EndRun(graph.dag_id, runs)
    else:
        yield remedy.RaiseRuns(graph.dag_id, found.around.path, runs_needed(found), runs)


def runs_needed(found: FoundDag) -> int:
    """How many runs may have to work for one more of events or time: runs that are queued may have their turn first."""
    dag = found.dag
    limits = range(dag.running + 1, dag.running + dag.queued + 2)
    free = msgspec.structs.replace(dag, is_paused=False, is_stale=False)
    enough = (limit for limit in limits if would_run(_with_limit(free, limit), found.now))
    return next(enough, dag.running + 1)


def _with_limit(dag: DagView, limit: int) -> DagView:
    return msgspec.structs.replace(dag, graph=msgspec.structs.replace(dag.graph, max_active_runs=limit))


def _resume(_found: FoundDag, reason: reasons.IntakeHalted) -> Iterator[Change]:
    yield remedy.Resume(reason.partitions)


def _bring_back(_found: FoundDag, reason: reasons.ServerUnreachable) -> Iterator[Change]:
    yield remedy.BringBack(reason.server)


def _start_daemon(_found: FoundDag, _reason: Any) -> Iterator[Change]:
    yield remedy.StartDaemon()


_CHANGES: Mapping[type, Callable[[FoundDag, Any], Iterator[Change]]] = {
    reasons.InputsMissing: _publish,
    reasons.OutsideWindow: _publish,
    reasons.ConditionBroken: _mend,
    reasons.Debouncing: _wait,
    reasons.RateLimited: _wait,
    reasons.NotYetDue: _wait_for_tick,
    reasons.TimetableExhausted: _trigger,
    reasons.NoSchedule: _trigger,
    reasons.DagPaused: _unpause,
    reasons.DagStale: _restore,
    reasons.MaxActiveRuns: _more_runs,
    reasons.RunsAhead: _more_runs,
    reasons.IntakeHalted: _resume,
    reasons.ServerUnreachable: _bring_back,
    reasons.NoDaemon: _start_daemon,
}
