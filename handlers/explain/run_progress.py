"""How far a run has come, and why it goes no further, by the functions that decide."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.runs.task_effects import pool_of
from tidegate.handlers.scheduling.run_limit import blockers_of_hold, blockers_of_run
from tidegate.handlers.tasks.readiness import readiness
from tidegate.handlers.tasks.upstream_counts import upstream_of
from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.explain.facts import DagStatus, OpenAttempt, RunFacts
from tidegate.schemas.explain.gates import ActiveTask, BlockedTask, RunProgress
from tidegate.schemas.explain.reasons import (
    InstancesNotDone,
    NextTry,
    NoDaemon,
    NotReady,
    PreviousRunNotDone,
    ProgressReason,
    UpstreamNotDone,
)
from tidegate.schemas.graph import Graph, position_of
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState, TaskState
from tidegate.schemas.view import Instance, PoolView, WaitingTask


class ProgressFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what decides about its tasks.

    `attempts` are open ones by task index; `attempted` are the indices of tasks that wait for slots while an attempt is open.
    `limited` are the active instances of tasks with limits of their own, as (DAG, run, task). `active` tasks of the installation
    are active, `parallelism` may be, 0 for any number. `daemons` is the number of live ones. `backfills` is what the backfill of
    the run may start, by the pool of its waiting tasks.
    """

    now: datetime
    run: RunFacts
    dag: DagStatus
    max_active_runs: int = 16
    pools: Mapping[str, PoolRow] = {}
    backfills: Mapping[str, BackfillCapacity] = {}
    attempts: Mapping[int, OpenAttempt] = {}
    attempted: frozenset[int] = frozenset()
    limited: Sequence[tuple[str, int, str]] = ()
    parallelism: int = 0
    active: int = 0
    daemons: int = 1


def progress(graph: Graph, instances: Sequence[Instance], facts: ProgressFacts) -> RunProgress:
    """The progress of a run. `instances` are its task instances, none before it starts."""
    by_position = {instance.index: instance.state for instance in instances}
    states = {position: by_position.get(position, TaskState.NONE) for position in range(len(graph.nodes))}
    counts = Counter(states.values())
    capacity_of = cache(partial(capacity, facts))  # thousands of instances may wait for one pool
    in_order = sorted(instances, key=lambda instance: (position_of(instance.index), instance.index))
    return RunProgress(
        dag_id=graph.dag_id,
        run_id=facts.run.view.run_id,
        state=facts.run.view.state,
        tasks=len(graph.nodes),
        ended=sum(counts[state] for state in TASK_ENDED),
        counts={state: counts[state] for state in TaskState if counts[state]},
        blocked_by=tuple(run_blockers(facts)),
        working=tuple(_active(graph, instance, facts) for instance in in_order if instance.state in TASK_ACTIVE),
        waiting=tuple(
            BlockedTask(
                graph.label(instance.index), instance.state, tuple(_task_blockers(graph, instance, states, facts, capacity_of))
            )
            for instance in in_order
            if instance.state not in TASK_ACTIVE | TASK_ENDED
        ),
    )


def _active(graph: Graph, instance: Instance, facts: ProgressFacts) -> ActiveTask:
    attempt = facts.attempts.get(instance.index)
    since, backend, host = (attempt.since, attempt.backend, attempt.host) if attempt else (None, None, None)
    return ActiveTask(graph.label(instance.index), instance.state, instance.try_number, since, backend, host)


def run_blockers(facts: ProgressFacts) -> Iterator[ProgressReason]:
    """Why a run goes no further, beside the reasons of its tasks."""
    run = facts.run
    if run.view.state not in RUN_ENDED and not facts.daemons:
        yield NoDaemon()
    if run.view.state is RunState.QUEUED:
        yield from blockers_of_run(run, facts.dag, facts.max_active_runs, facts.now)
    elif run.view.state is RunState.RUNNING:
        yield from blockers_of_hold(facts.dag)


def _task_blockers(
    graph: Graph,
    instance: Instance,
    states: Mapping[int, TaskState],
    facts: ProgressFacts,
    capacity_of: Callable[[str], Capacity],
) -> Iterator[ProgressReason]:
    match instance.state:
        case TaskState.NONE:
            yield from blockers_of_hold(facts.dag)
            yield from readiness_blockers(graph, instance, states, facts.run.run_before)
        case TaskState.SCHEDULED:
            task = waiting_task(graph, instance, facts)
            pool = pool_of(facts.run.view, graph.node(instance.index).task)
            yield from capacity_of(pool).blockers(task)
        case _:
            yield from blockers_of_hold(facts.dag)
            yield NextTry(instance.next_try_at)


def readiness_blockers(
    graph: Graph, instance: Instance, states: Mapping[int, TaskState], run_before: str | None
) -> Iterator[NotReady]:
    """Every reason why a task in state `none` is not ready."""
    reason = readiness(graph.nodes[instance.index], instance, states.__getitem__)
    if reason is InstancesNotDone:
        elements = upstream_of(instance)
        yield InstancesNotDone(elements.open, elements.total)
        return
    if reason is UpstreamNotDone:
        upstream = graph.upstream_of(instance.index)
        yield UpstreamNotDone(tuple(graph.label(index) for index in upstream if states[index] not in TASK_ENDED))
    if instance.waits_for_past:
        yield PreviousRunNotDone(run_before)


def waiting_task(graph: Graph, instance: Instance, facts: ProgressFacts) -> WaitingTask:
    """A task instance as the admission sees it."""
    task = graph.node(instance.index).task
    return WaitingTask(
        dag_run_id=facts.run.view.id,
        task_index=instance.index,
        dag_id=graph.dag_id,
        task_id=task.task_id,
        state=instance.state,
        try_number=instance.try_number,
        pool_slots=task.pool_slots,
        per_dag=task.max_active_per_dag,
        per_run=task.max_active_per_run,
        is_paused=facts.dag.is_paused,
        hold_reason=facts.dag.hold_reason,
        is_attempted=instance.index in facts.attempted,
        backfill_id=facts.run.view.backfill_id,
    )


def capacity(facts: ProgressFacts, pool: str) -> Capacity:
    """The capacity of a pool and of every limit, as the admission sees it."""
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
    run, backfill = facts.run.view, facts.backfills.get(pool)
    capacities = {} if backfill is None else {backfill.id: backfill}
    return Capacity(AdmissionState(facts.now, view, limited=tuple(facts.limited), backfills=capacities, runs={run.id: run}))
