"""What to say of how far a run has come. For people to look at: nothing is decided by it, and nothing is locked for it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.tally import tally, upstream_of
from tidegate.handlers.trigger import WAIT, judge, judge_teardown
from tidegate.schemas import progress as shown
from tidegate.schemas.graph import Graph, position_of
from tidegate.schemas.queries.pools import UNLIMITED, PoolRow
from tidegate.schemas.queries.progress import AttemptRow, RunFacts
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState, TaskState
from tidegate.schemas.view import Instance


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds a run.

    `attempts` are those under way, by the index of their task; `limited` the active instances of tasks with limits of their own,
    as (DAG, run, task). In the whole installation `active` tasks work, and `parallelism` may, 0 for any number. `daemons` is how
    many are alive.
    """

    now: datetime
    run: RunFacts
    max_active_runs: int = 16
    pools: Mapping[str, PoolRow] = {}
    attempts: Mapping[int, AttemptRow] = {}
    limited: Sequence[tuple[str, int, str]] = ()
    parallelism: int = 0
    active: int = 0
    daemons: int = 1


def progress(graph: Graph, instances: Sequence[Instance], facts: Facts) -> shown.Progress:
    """How far a run has come, given its task instances (none before it starts) and what surrounds it."""
    found = {instance.index: instance.state for instance in instances}
    states = {index: found.get(index, TaskState.NONE) for index in range(len(graph.nodes))}
    counts = Counter(states.values())
    in_order = sorted(instances, key=lambda instance: (position_of(instance.index), instance.index))
    return shown.Progress(
        dag_id=graph.dag_id,
        run_id=facts.run.run_id,
        state=RunState(facts.run.state),
        tasks=len(graph.nodes),
        ended=sum(counts[state] for state in TASK_ENDED),
        counts={state: counts[state] for state in TaskState if counts[state]},
        blocked_by=tuple(_blocks_of_run(facts)),
        working=tuple(_working(graph, instance, facts) for instance in in_order if instance.state in TASK_ACTIVE),
        waiting=tuple(
            shown.Waiting(graph.label(instance.index), instance.state, tuple(_blocks(graph, instance, states, facts)))
            for instance in in_order
            if instance.state not in TASK_ACTIVE | TASK_ENDED
        ),
    )


def _working(graph: Graph, instance: Instance, facts: Facts) -> shown.Working:
    attempt = facts.attempts.get(instance.index)
    since, backend, host = (attempt.since, attempt.backend, attempt.host) if attempt else (None, None, None)
    return shown.Working(graph.label(instance.index), instance.state, instance.try_number, since, backend, host)


def _blocks_of_run(facts: Facts) -> Iterator[shown.RunBlock]:
    run = facts.run
    if run.state not in RUN_ENDED and not facts.daemons:
        yield shown.NoDaemon()
    if run.state != RunState.QUEUED:
        return
    if run.is_paused:
        yield shown.DagPaused()
    if run.is_stale:
        yield shown.DagStale()
    if run.run_after > facts.now:
        yield shown.NotYetDue(run.run_after)
    if run.running_runs >= facts.max_active_runs:
        yield shown.DagLimit(facts.max_active_runs)
    if run.runs_ahead:
        yield shown.RunsAhead(run.runs_ahead)


def _blocks(graph: Graph, instance: Instance, states: Mapping[int, TaskState], facts: Facts) -> Iterator[shown.TaskBlock]:
    match instance.state:
        case TaskState.NONE if instance.elements:
            elements = upstream_of(instance)
            yield shown.ElementsNotDone(elements.total - elements.success - elements.bad - elements.skipped, elements.total)
        case TaskState.NONE:
            yield from _before_its_turn(graph, instance, states, facts)
        case TaskState.SCHEDULED:
            yield from _limits(graph, instance, facts)
            yield from _slots(graph, instance, facts)
        case _:
            yield shown.NextTry(instance.next_try_at)


def _before_its_turn(
    graph: Graph, instance: Instance, states: Mapping[int, TaskState], facts: Facts
) -> Iterator[shown.TaskBlock]:
    above = graph.upstream_of(instance.index)
    undone = tuple(graph.nodes[index].task.task_id for index in above if states[index] not in TASK_ENDED)
    if undone and _verdict(graph, instance, states) is WAIT:
        yield shown.UpstreamNotDone(undone)
    if instance.waits_for_past:
        yield shown.RunBefore(facts.run.run_before)


def _verdict(graph: Graph, instance: Instance, states: Mapping[int, TaskState]) -> TaskState:
    node = graph.nodes[instance.index]
    if node.setups:
        return judge_teardown(tally(states[setup] for setup in node.setups), upstream_of(instance))
    return judge(node.task.trigger_rule, upstream_of(instance))


def _limits(graph: Graph, instance: Instance, facts: Facts) -> Iterator[shown.TaskBlock]:
    run, task = facts.run, graph.node(instance.index).task
    runs = [dag_run_id for dag_id, dag_run_id, task_id in facts.limited if (dag_id, task_id) == (graph.dag_id, task.task_id)]
    if run.is_paused:
        yield shown.DagPaused()
    if run.active_tasks >= run.max_active_tasks:
        yield shown.RunLimit(run.max_active_tasks)
    if task.max_active_per_run is not None and runs.count(run.id) >= task.max_active_per_run:
        yield shown.TaskLimitInRun(task.max_active_per_run)
    if task.max_active_per_dag is not None and len(runs) >= task.max_active_per_dag:
        yield shown.TaskLimitInDag(task.max_active_per_dag)
    if facts.parallelism and facts.active >= facts.parallelism:
        yield shown.Parallelism(facts.parallelism)


def _slots(graph: Graph, instance: Instance, facts: Facts) -> Iterator[shown.TaskBlock]:
    task = graph.node(instance.index).task
    pool = facts.pools.get(task.pool)
    if pool is None:
        yield shown.PoolMissing(task.pool)
    elif UNLIMITED != pool.slots < task.pool_slots:
        yield shown.PoolTooSmall(task.pool, pool.slots, task.pool_slots)
    elif pool.open is not None and pool.open < task.pool_slots:
        yield shown.PoolFull(task.pool, pool.slots, pool.open, task.pool_slots)
