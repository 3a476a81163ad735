"""Explains why a task instance does not run: its gates, closed by the functions that decide, and the smallest change.

A change is found by trying it on the functions that decide.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.handlers.explain.gate import shared_change
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.handlers.explain.task_gates import admission_gates, readiness_gates, run_gates, submission_gates
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.handlers.tasks.readiness import apply_rule
from tidegate.handlers.tasks.upstream_counts import recount
from tidegate.schemas.explain import reasons
from tidegate.schemas.explain.facts import OccupyingTask
from tidegate.schemas.explain.gates import Gate, TaskExplanation
from tidegate.schemas.explain.reasons import (
    ActivityLimit,
    BackfillLimit,
    ClusterUnknown,
    NeedsClear,
    NotReady,
    PoolLimit,
    RunLimit,
    SharedReason,
    TaskReason,
)
from tidegate.schemas.explain.remedy import (
    AddCluster,
    Change,
    Clear,
    EndRun,
    EndTasks,
    EndUpstream,
    RaiseRuns,
    Release,
    RestoreServer,
    SetBackfill,
    SetParallelism,
    SetSlots,
    StartDaemon,
    Wait,
)
from tidegate.schemas.graph import Graph, position_of
from tidegate.schemas.state import TASK_ENDED, TASK_FAILED, TaskState
from tidegate.schemas.view import Instance

TASK_LIMITS = (reasons.MaxActiveTasks, reasons.MaxActiveTisPerDagrun, reasons.MaxActiveTisPerDag)


def explain_task(facts: TaskFacts) -> TaskExplanation:
    gates = (*run_gates(facts), *readiness_gates(facts), *admission_gates(facts), *submission_gates(facts))
    return TaskExplanation(
        dag_id=facts.graph.dag_id,
        run_id=facts.run.view.run_id,
        task=facts.label,
        state=facts.instance.state if facts.has_started else None,
        gates=gates,
        change=task_changes(facts, gates),
    )


def task_changes(facts: TaskFacts, gates: Sequence[Gate[TaskReason]]) -> tuple[Change, ...]:
    """The changes that open the closed gates, each once."""
    wanted = dict.fromkeys(change for gate in gates if gate.reason for change in _changes(facts, gate.reason))
    if any(isinstance(change, AddCluster | Release | RestoreServer | StartDaemon) for change in wanted):
        wanted.pop(Wait(None), None)
    return tuple(wanted)


def _changes(facts: TaskFacts, reason: TaskReason) -> Iterator[Change]:
    if isinstance(reason, SharedReason):
        return iter((shared_change(reason, facts.graph.dag_id, facts.dag),))
    if isinstance(reason, ClusterUnknown):
        return iter((AddCluster(reason.cluster, reason.address, reason.hosts),))
    if isinstance(reason, BackfillLimit):
        return _backfill_limit(facts, reason)
    if isinstance(reason, RunLimit | PoolLimit | ActivityLimit):
        return _limit_changes(facts, reason)
    return _readiness_changes(facts, reason)


def _limit_changes(facts: TaskFacts, reason: RunLimit | PoolLimit | ActivityLimit) -> Iterator[Change]:
    match reason:
        case reasons.MaxActiveRuns() | reasons.RunsAhead():
            return _more_runs(facts)
        case reasons.MaxActiveTasks():
            return _max_active_tasks(facts)
        case reasons.MaxActiveTisPerDag(limit):
            return _max_active_per_dag(facts, limit)
        case reasons.MaxActiveTisPerDagrun(limit):
            return _max_active_per_run(facts, limit)
        case reasons.Parallelism(limit):
            return iter((SetParallelism(facts.active + 1) if facts.active >= limit else Wait(None),))
        case _:
            return _slots(facts, reason)


def _readiness_changes(facts: TaskFacts, reason: NotReady | NeedsClear) -> Iterator[Change]:
    match reason:
        case reasons.UpstreamNotDone():
            return _upstream(facts)
        case reasons.InstancesNotDone():
            return _instances(facts)
        case reasons.PreviousRunNotDone(run_id):
            return _previous_run(facts, run_id)
        case reasons.RuledOut() | reasons.EndedApart():
            return _clear_cause(facts, reason)
        case reasons.OutsideDates():
            return iter(())
        case _:
            return _clear_itself(facts, reason)


def _backfill_limit(facts: TaskFacts, reason: BackfillLimit) -> Iterator[Change]:
    if reason.limit == "max_active_runs":
        yield from _more_runs(facts)
    else:
        yield SetBackfill(reason.backfill_id, reason.limit, 100 if reason.limit == "share" else reason.value + 1)


def _more_runs(facts: TaskFacts) -> Iterator[Change]:
    """Queued runs ahead count, too. A continuous DAG has one run at a time: its limit cannot be raised."""
    running, limit = tuple(facts.dag.running), facts.run.running_runs + facts.run.runs_ahead + 1
    if facts.run.backfill is not None:
        if limit > facts.run.backfill.max_active_runs:
            yield SetBackfill(facts.run.backfill.id, "max_active_runs", limit)
    elif facts.newest_graph.is_continuous:
        yield from (EndRun(facts.graph.dag_id, running),) if running else ()
    elif limit > facts.newest_graph.max_active_runs:
        yield RaiseRuns(facts.graph.dag_id, facts.dag.path, limit, running)


def _upstream(facts: TaskFacts) -> Iterator[Change]:
    first = _first_upstream(facts, lambda state: state not in TASK_ENDED)
    yield EndUpstream(facts.graph.dag_id, facts.run.view.run_id, tuple(map(facts.graph.label, first)))


def _first_upstream(facts: TaskFacts, counts: Callable[[TaskState], bool]) -> list[int]:
    """The starts of the chains that lead to the task through tasks in states that `counts` accepts."""
    task = position_of(facts.instance.index)
    return _chain_starts(facts.graph, task, lambda position: counts(facts.state_of(position)))


def _chain_starts(graph: Graph, task: int, counts: Callable[[int], bool]) -> list[int]:
    first, seen, todo = [], set(), [task]
    while todo:
        index = todo.pop()
        upstream = [up for up in graph.upstream[index] if counts(up)]
        if not upstream and index != task:
            first.append(index)
        todo += [up for up in upstream if up not in seen]
        seen.update(upstream)
    return sorted(first)


def _instances(facts: TaskFacts) -> Iterator[Change]:
    """Let its instances end, of which there may be thousands: the first are named."""
    if facts.undone:
        yield EndUpstream(facts.graph.dag_id, facts.run.view.run_id, tuple(map(facts.graph.label, facts.undone)))


def _clear_cause(facts: TaskFacts, reason: reasons.RuledOut | reasons.EndedApart) -> Iterator[Change]:
    """The task itself, if its trigger rule lets it run by now; else the first upstream tasks that failed, or were skipped.

    The end of a run leaves both in a chain.
    """
    if _may_run(facts):
        yield from _clear_itself(facts, reason)
        return
    passed_on = TASK_FAILED if facts.instance.state is TaskState.UPSTREAM_FAILED else {TaskState.SKIPPED}
    counted = passed_on if isinstance(reason, reasons.RuledOut) else {*TASK_FAILED, TaskState.SKIPPED}
    if causes := _first_upstream(facts, counted.__contains__):
        yield _clear(facts, *map(facts.graph.label, causes))


def _may_run(facts: TaskFacts) -> bool:
    """Whether the trigger rule of the task, or of its mapped task, lets it run by now."""
    position = position_of(facts.instance.index)
    again = Instance(position)
    recount(facts.graph, {**facts.instances, position: again}, position)
    return apply_rule(facts.graph.nodes[position], again, facts.state_of) is TaskState.SCHEDULED


def _clear_itself(facts: TaskFacts, reason: NeedsClear) -> Iterator[Change]:
    """An instance is cleared alone, unless it was removed. A mapped task that got no instances needs another list."""
    position = position_of(facts.instance.index)
    if facts.instance.index != position and facts.instance.state is not TaskState.REMOVED:
        yield _clear(facts, facts.graph.label(facts.instance.index))
        return
    over = facts.graph.nodes[position].over
    lacks_list = facts.instance.index == position and not facts.instance.elements and not isinstance(reason, reasons.RunEnded)
    if lacks_list and over is not None and facts.state_of(over) is TaskState.SUCCESS:
        position = over
    yield _clear(facts, facts.graph.label(position))


def _clear(facts: TaskFacts, *labels: str) -> Clear:
    return Clear(facts.graph.dag_id, facts.run.view.run_id, labels)


def _previous_run(facts: TaskFacts, run_id: str | None) -> Iterator[Change]:
    """Clear what failed in the previous run, and let its other blocking tasks end. A task that it lacks never ends there."""
    blocking = blocking_tasks(facts.previous, facts.graph, facts.instance.index)
    states = facts.previous.states if facts.previous else None
    by_id = states or {}
    failed = [task_id for task_id in blocking if by_id.get(task_id) in TASK_FAILED]
    undone = tuple(task_id for task_id in blocking if task_id not in failed and (states is None or _is_part(states, task_id)))
    if run_id is not None and failed:
        causes = (cause for task_id in failed for cause in _causes(facts.graph, task_id, by_id))
        yield Clear(facts.graph.dag_id, run_id, tuple(dict.fromkeys(causes)))
    if run_id is not None and undone:
        yield EndUpstream(facts.graph.dag_id, run_id, undone)


def _is_part(states: Mapping[str, TaskState], task_id: str) -> bool:
    return states.get(task_id, TaskState.REMOVED) is not TaskState.REMOVED


def _causes(graph: Graph, task_id: str, states: Mapping[str, TaskState]) -> tuple[str, ...]:
    """The first tasks of a run that failed, because of which this one did."""
    if states[task_id] is not TaskState.UPSTREAM_FAILED:
        return (task_id,)
    ids = [node.task.task_id for node in graph.nodes]
    starts = _chain_starts(graph, ids.index(task_id), lambda position: states.get(ids[position]) in TASK_FAILED)
    return tuple(ids[position] for position in starts) or (task_id,)


def _slots(facts: TaskFacts, _reason: PoolLimit) -> Iterator[Change]:
    if facts.admission is not None and not _freed_anyway(facts, facts.admission):
        size = slots_needed(facts.admission, facts.occupied)
        if size is not None:
            names = tuple(" ".join((task.dag_id, task.run_id, task.task)) for task in facts.in_pool)
            yield SetSlots(facts.admission.pool.name, size, names)


def _freed_anyway(facts: TaskFacts, admission: AdmissionState) -> bool:
    """Whether the end of any one task that another limit asks to end frees enough slots."""
    *_, task = admission.waiting
    limits = [reason for reason in Capacity(admission).limits_reached(task) if isinstance(reason, TASK_LIMITS)]
    changes = [change for reason in limits for change in _changes(facts, reason)]
    ending = {name for change in changes if isinstance(change, EndTasks) for name in change.tasks}
    freed = [other.slots for other in facts.in_pool if (other.dag_id, other.run_id, other.task) in ending]
    missing = task.pool_slots + facts.occupied - (admission.pool.slots or 0)
    return bool(freed) and len(freed) == len(ending) and min(freed) >= missing


def slots_needed(admission: AdmissionState, occupied: int) -> int | None:
    """A larger size of the pool that admits the last task of its queue, whatever else limits that task; None if none does."""
    *_, task = admission.waiting
    least = max(occupied + task.pool_slots, (admission.pool.slots or 0) + 1)
    limits = Capacity(admission).limits_reached(task)
    is_limited = not all(isinstance(limit, reasons.PoolMissing | reasons.PoolTooSmall) for limit in limits)
    if is_limited or _suffices(admission, occupied, least):
        return least  # of a limited task: the admissions before it are unknown until the limits allow it
    most = occupied + sum(other.pool_slots for other in {*admission.waiting, *admission.starving})
    sizes = range(least + 1, most + 1)
    enough = bisect_left(sizes, 1, key=lambda size: int(_suffices(admission, occupied, size)))
    return sizes[enough] if enough < len(sizes) else None


def _suffices(admission: AdmissionState, occupied: int, size: int) -> bool:
    *_, task = admission.waiting
    pool = msgspec.structs.replace(admission.pool, open=size - occupied, slots=size, exists=True)
    return task in list(select_tasks(Capacity(msgspec.structs.replace(admission, pool=pool))))


def _max_active_tasks(facts: TaskFacts) -> Iterator[Change]:
    run = facts.run.view
    yield _end("max_active_tasks", run.active_tasks - run.max_active_tasks + 1, facts.in_run)


def _max_active_per_dag(facts: TaskFacts, limit: int) -> Iterator[Change]:
    task = facts.graph.dag_id, _task_id(facts)
    active = sum((dag_id, task_id) == task for dag_id, _, task_id in facts.limited)
    yield _end("max_active_tis_per_dag", active - limit + 1, facts.of_task)


def _max_active_per_run(facts: TaskFacts, limit: int) -> Iterator[Change]:
    active = sum((run, task_id) == (facts.run.view.id, _task_id(facts)) for _, run, task_id in facts.limited)
    of_run = [task for task in facts.of_task if task.run_id == facts.run.view.run_id]
    yield _end("max_active_tis_per_dagrun", active - limit + 1, of_run)


def _task_id(facts: TaskFacts) -> str:
    return facts.graph.node(facts.instance.index).task.task_id


def _end(limit: str, count: int, tasks: Sequence[OccupyingTask]) -> EndTasks | Wait:
    """Tasks ahead in the queue may reach the limit with their admission: none has to end before it."""
    if count <= 0:
        return Wait(None)
    return EndTasks(limit, count, tuple((task.dag_id, task.run_id, task.task) for task in tasks))
