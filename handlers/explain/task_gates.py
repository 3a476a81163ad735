"""The gates of a task instance once its run works: its turn, its slots and limits, its submission."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.handlers.admission.capacity import Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.handlers.explain.run_gates import daemons_gate, gate
from tidegate.handlers.explain.run_progress import blocks_of_turn
from tidegate.handlers.explain.task_facts import Found
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.handlers.tasks.upstream_counts import upstream_of
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import (
    LowerPriority,
    NotSubmitted,
    OutsideDates,
    Reason,
    RuledOut,
    ServerUnreachable,
    TaskEnded,
)
from tidegate.schemas.graph import Node, element_of
from tidegate.schemas.queries.leases import Away
from tidegate.schemas.queries.whynot import AttemptFacts, AtWork
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, RunState, SubmissionState, TaskState

NEVER = frozenset({TaskState.SKIPPED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED})
POOL_BLOCKS = (reasons.PoolMissing, reasons.PoolTooSmall, reasons.PoolFull)
NO_RUNNER = frozenset({"Kafka", "Postgres"})
"""Servers without which tasks can still be started, or without which nobody could be asked."""


def turn_gates(found: Found) -> Iterator[Gate]:
    """Whether it is its turn, by what is before it in its run and by the run before."""
    node, waits = found.graph.node(found.instance.index), _waits(found)
    blocks = {type(reason): reason for reason in _turn_blocks(found)} if waits else {}
    before = blocks.get(reasons.UpstreamNotDone) or blocks.get(reasons.InstancesNotDone)
    yield gate("upstream", before, _upstream(found, node), reached=found.has_started)
    yield _rule(found, node, reached=found.has_started and not before)
    if node.task.depends_on_past or node.task.wait_for_downstream:
        held = blocking_tasks(found.past, found.graph, found.instance.index) if waits else ()
        facts = {"run": found.run.run_before, "tasks": held}
        yield gate("run before", blocks.get(reasons.PreviousRun), facts, reached=found.has_started and not before)
    yield _next_try(found)


def admission_gates(found: Found) -> Iterator[Gate]:
    """Whether it is given slots, by what gives them."""
    blocks: Mapping[type, Reason] = {type(reason): reason for reason in _slot_blocks(found)}
    reached = found.admission is not None or _was_admitted(found)
    yield _pool(found, next((blocks[of] for of in POOL_BLOCKS if of in blocks), None), reached=reached)
    yield gate("priority", blocks.get(LowerPriority), _before(found), reached=reached)
    if reasons.AttemptOpen in blocks:
        yield gate("attempt", blocks[reasons.AttemptOpen], _submission(found.attempt) if found.attempt else {}, reached=reached)
    for name, of, limit, working in _limits(found):
        facts = {"limit": limit, **(working if found.admission else {})}
        yield gate(name, blocks.get(of), facts, reached=reached)


def _pool(found: Found, reason: Reason | None, *, reached: bool) -> Gate:
    task, place, admission = found.graph.node(found.instance.index).task, found.place, found.admission
    facts: dict[str, Any] = {"pool": place.pool if place else task.pool, "needed": task.pool_slots}
    if admission:
        facts |= {"slots": admission.pool.slots, "taken": found.occupied, "by": _names(found.in_pool)}
    return gate("pool", reason, facts, reached=reached, since=place.scheduled_at if place and reached else None)


def _limits(found: Found) -> Iterator[tuple[str, type, int, Mapping[str, Any]]]:
    """Those that there are, each with what reaches it, and what counts."""
    run, task = found.run.run, found.graph.node(found.instance.index).task
    in_run = {"working": run.active_tasks, "tasks": _names(found.in_run)}
    yield "max_active_tasks", reasons.MaxActiveTasks, run.max_active_tasks, in_run
    same = {"tasks": _names(found.of_task)}
    if task.max_active_per_dag is not None:
        yield "max_active_tis_per_dag", reasons.MaxActiveTisPerDag, task.max_active_per_dag, same
    if task.max_active_per_run is not None:
        yield "max_active_tis_per_dagrun", reasons.MaxActiveTisPerDagrun, task.max_active_per_run, same
    if found.admission and found.admission.pool.parallelism:
        yield "parallelism", reasons.Parallelism, found.admission.pool.parallelism, {"working": found.active}


def submission_gates(found: Found) -> Iterator[Gate]:
    """Whether a backend has it, and whether anybody is there to give it one."""
    attempt, state = found.attempt, found.instance.state
    reached = attempt is not None and state in TASK_ENDED | TASK_ACTIVE
    reason: Reason | None = None
    since = None
    if attempt is not None and reached:
        if state is TaskState.QUEUED and attempt.state in (SubmissionState.INTENT, SubmissionState.SUBMITTING):
            reason = NotSubmitted(attempt.backend, attempt.state)
        since = attempt.started_at or attempt.submitted_at or attempt.created_at
    yield gate("submission", reason, _submission(attempt) if attempt and reached else None, reached=reached, since=since)
    server, away = _away(found)
    lost = ServerUnreachable(server, away.error) if away and reason else None
    backend = {"backend": attempt.backend} if attempt else {}
    yield gate("backend", lost, backend, reached=reached, since=away.since if away and lost else None)
    yield daemons_gate(found.daemons, needed=state not in TASK_ENDED | {TaskState.RUNNING})


def _submission(attempt: AttemptFacts) -> Mapping[str, Any]:
    abandoned = attempt.state == SubmissionState.SUBMITTING and not attempt.has_owner
    return {
        "state": attempt.state,
        "host": attempt.host,
        "before_it": attempt.ahead or None,
        "daemon": "gone" if abandoned else None,
        "to_be_killed": attempt.kill_reason,
        "last_sign_of_life": attempt.heartbeat_at,
    }


def _waits(found: Found) -> bool:
    """Whether its run works and its turn has not come."""
    return found.run.run.state is RunState.RUNNING and found.instance.state is TaskState.NONE


def _turn_blocks(found: Found) -> Iterator[Reason]:
    if element_of(found.instance.index) is None:
        states = {position: found.state_of(position) for position in range(len(found.graph.nodes))}
        yield from blocks_of_turn(found.graph, found.instance, states, found.run.run_before)


def _upstream(found: Found, node: Node) -> Mapping[str, Any]:
    if element_of(found.instance.index) is not None:
        return {}
    if not found.has_started:
        return {"tasks": node.task.upstream}
    above = found.graph.upstream_of(found.instance.index)
    undone = [index for index in above if found.state_of(index) not in TASK_ENDED]
    return {
        "ended": f"{len(above) - len(undone)} of {len(above)}" if above else None,
        "not_ended": tuple(f"{found.graph.label(index)} {found.state_of(index)}" for index in undone),
        "instances": found.instance.elements or None,
    }


def _rule(found: Found, node: Node, *, reached: bool) -> Gate:
    state, counts = found.instance.state, upstream_of(found.instance)
    reason: Reason | None = None
    if state in NEVER:
        reason = OutsideDates() if state is TaskState.REMOVED else RuledOut(node.task.trigger_rule, state)
    facts = {"rule": node.task.trigger_rule, "success": counts.success, "failed": counts.failed}
    facts |= {"skipped": counts.skipped, "upstream_failed": counts.upstream_failed}
    since = found.place.end_date if reason and found.place else None
    return gate("trigger rule", reason, {name: fact or None for name, fact in facts.items()}, reached=reached, since=since)


def _next_try(found: Found) -> Gate:
    instance, attempt = found.instance, found.attempt
    reason: Reason | None = None
    if instance.state is TaskState.UP_FOR_RETRY:
        reason = reasons.NextTry(instance.next_try_at)
    elif instance.state is TaskState.FAILED:
        reason = TaskEnded(instance.state, instance.try_number, attempt.reason if attempt else "")
    facts: dict[str, Any] = {"tries": instance.try_number, "of": instance.max_tries}
    if attempt and instance.state is TaskState.UP_FOR_RETRY:
        facts |= {"reason": attempt.reason}
    reached = found.has_started and instance.state not in NEVER | {TaskState.NONE}
    return gate("next try", reason, facts, reached=reached, since=attempt.ended_at if attempt and reason else None)


def _slot_blocks(found: Found) -> Iterator[Reason]:
    if found.admission is None:
        return
    *_, task = found.admission.waiting
    blocks = Capacity(found.admission).blockers(task)
    yield from blocks
    if not blocks:
        chosen = list(select_tasks(Capacity(found.admission)))
        if task not in chosen:
            yield LowerPriority(found.admission.pool.name, len(chosen))


def _before(found: Found) -> Mapping[str, Any]:
    if found.admission is None:
        return {}
    *others, _ = found.admission.waiting
    names = tuple(f"{task.dag_id} {found.admission.runs[task.dag_run_id].run_id} {task.task_id}" for task in others[:3])
    return {"before_it": len(others), "first": names}


def _was_admitted(found: Found) -> bool:
    return found.instance.state in TASK_ACTIVE or (found.instance.state in TASK_ENDED - NEVER and found.instance.try_number > 0)


def _away(found: Found) -> tuple[str, Away | None]:
    """A server that no daemon can reach, and that is needed to start tasks."""
    everywhere = [set(daemon.away) - NO_RUNNER for daemon in found.daemons]
    missing = sorted(set.intersection(*everywhere)) if everywhere else []
    return (missing[0], found.daemons[0].away[missing[0]]) if missing else ("", None)


def _names(working: Sequence[AtWork]) -> tuple[str, ...]:
    return tuple(f"{each.dag_id} {each.run_id} {each.task}" for each in working)
