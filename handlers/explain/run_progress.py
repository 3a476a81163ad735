"""What to say of how far a run has come. For people to look at: nothing is decided by it, and nothing is locked for it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.scheduling.run_limit import blockers_of_run
from tidegate.handlers.tasks.readiness import WaitsFor, readiness
from tidegate.handlers.tasks.upstream_counts import upstream_of
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.facts import RunFacts
from tidegate.schemas.explain.progress import ActiveTask, BlockedTask, RunProgress
from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.graph import Graph, position_of
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow
from tidegate.schemas.queries.progress import AttemptRow
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState, TaskState
from tidegate.schemas.view import Instance, PoolView, WaitingTask


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds a run.

    `attempts` are those under way, by the index of their task, and `attempted` the indices of tasks that wait for slots although
    an attempt of theirs has not ended. `limited` are the active instances of tasks with limits of their own, as (DAG, run, task).
    In the whole installation `active` tasks work, and `parallelism` may, 0 for any number. `daemons` is how many are alive.
    """

    now: datetime
    run: RunFacts
    max_active_runs: int = 16
    pools: Mapping[str, PoolRow] = {}
    attempts: Mapping[int, AttemptRow] = {}
    attempted: frozenset[int] = frozenset()
    limited: Sequence[tuple[str, int, str]] = ()
    parallelism: int = 0
    active: int = 0
    daemons: int = 1


def progress(graph: Graph, instances: Sequence[Instance], facts: Facts) -> RunProgress:
    """How far a run has come, given its task instances (none before it starts) and what surrounds it."""
    found = {instance.index: instance.state for instance in instances}
    states = {index: found.get(index, TaskState.NONE) for index in range(len(graph.nodes))}
    counts = Counter(states.values())
    in_order = sorted(instances, key=lambda instance: (position_of(instance.index), instance.index))
    return RunProgress(
        dag_id=graph.dag_id,
        run_id=facts.run.run.run_id,
        state=facts.run.run.state,
        tasks=len(graph.nodes),
        ended=sum(counts[state] for state in TASK_ENDED),
        counts={state: counts[state] for state in TaskState if counts[state]},
        blocked_by=tuple(_blocks_of_run(facts)),
        working=tuple(_working(graph, instance, facts) for instance in in_order if instance.state in TASK_ACTIVE),
        waiting=tuple(
            BlockedTask(graph.label(instance.index), instance.state, tuple(_blocks(graph, instance, states, facts)))
            for instance in in_order
            if instance.state not in TASK_ACTIVE | TASK_ENDED
        ),
    )


def _working(graph: Graph, instance: Instance, facts: Facts) -> ActiveTask:
    attempt = facts.attempts.get(instance.index)
    since, backend, host = (attempt.since, attempt.backend, attempt.host) if attempt else (None, None, None)
    return ActiveTask(graph.label(instance.index), instance.state, instance.try_number, since, backend, host)


def _blocks_of_run(facts: Facts) -> Iterator[Reason]:
    run = facts.run
    if run.run.state not in RUN_ENDED and not facts.daemons:
        yield reasons.NoDaemon()
    if run.run.state is RunState.QUEUED:
        yield from blockers_of_run(run, facts.max_active_runs, facts.now)


def _blocks(graph: Graph, instance: Instance, states: Mapping[int, TaskState], facts: Facts) -> Iterator[Reason]:
    match instance.state:
        case TaskState.NONE:
            yield from blocks_of_turn(graph, instance, states, facts.run.run_before)
        case TaskState.SCHEDULED:
            task = waiting(graph, instance, facts)
            yield from capacity(facts, graph.node(instance.index).task.pool).blockers(task)
        case _:
            yield reasons.NextTry(instance.next_try_at)


def blocks_of_turn(graph: Graph, instance: Instance, states: Mapping[int, TaskState], run_before: str | None) -> Iterator[Reason]:
    """All that a task waits for before its turn."""
    hold = readiness(graph.nodes[instance.index], instance, states.__getitem__)
    if hold is WaitsFor.INSTANCES:
        elements = upstream_of(instance)
        yield reasons.InstancesNotDone(elements.total - elements.success - elements.bad - elements.skipped, elements.total)
        return
    if hold in (WaitsFor.UPSTREAM, WaitsFor.LIST):
        above = graph.upstream_of(instance.index)
        yield reasons.UpstreamNotDone(tuple(graph.label(index) for index in above if states[index] not in TASK_ENDED))
    if instance.waits_for_past:
        yield reasons.PreviousRun(run_before)


def waiting(graph: Graph, instance: Instance, facts: Facts) -> WaitingTask:
    """A task instance as the admission sees it."""
    task = graph.node(instance.index).task
    return WaitingTask(
        dag_run_id=facts.run.run.id,
        task_index=instance.index,
        dag_id=graph.dag_id,
        task_id=task.task_id,
        state=instance.state,
        try_number=instance.try_number,
        pool_slots=task.pool_slots,
        per_dag=task.max_active_per_dag,
        per_run=task.max_active_per_run,
        is_paused=facts.run.is_paused,
        is_attempted=instance.index in facts.attempted,
    )


def capacity(facts: Facts, pool: str) -> Capacity:
    """What is left of a pool and of all limits, as the admission sees it."""
    parallel = max(facts.parallelism - facts.active, 0) if facts.parallelism else None
    row = facts.pools.get(pool)
    view = PoolView(
        name=pool,
        open=row.open if row else 0,
        slots=None if row is None or row.slots == UNLIMITED else row.slots,
        parallel=parallel,
        parallelism=facts.parallelism,
        exists=row is not None,
    )
    return Capacity(AdmissionState(facts.now, view, limited=tuple(facts.limited), runs={facts.run.run.id: facts.run.run}))
