"""The smallest change that lets a task instance run, found by asking those that decide."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.handlers.explain.task_facts import Found
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.handlers.tasks.readiness import apply_rule
from tidegate.handlers.tasks.upstream_counts import recount
from tidegate.schemas.explain import reasons, remedy
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.graph import element_of
from tidegate.schemas.queries.whynot import AtWork
from tidegate.schemas.state import TASK_ENDED, TASK_FAILED, TaskState

TASK_LIMITS = (reasons.MaxActiveTasks, reasons.MaxActiveTisPerDagrun, reasons.MaxActiveTisPerDag)


def changes(found: Found, gates: Sequence[Gate]) -> tuple[remedy.Change, ...]:
    """What opens the closed ones of these gates; what two of them have in common is said once."""
    wanted = dict.fromkeys(change for gate in gates if gate.reason for change in _of(found, gate.reason))
    if any(isinstance(change, remedy.BringBack | remedy.StartDaemon) for change in wanted):
        wanted.pop(remedy.Wait(None), None)
    return tuple(wanted)


def _of(found: Found, reason: Reason) -> Iterator[remedy.Change]:
    return _CHANGES[type(reason)](found, reason)


def _unpause(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield remedy.Unpause(found.graph.dag_id)


def _restore(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield remedy.RestoreFile(found.graph.dag_id, found.around.path)


def _wait_for_time(_found: Found, reason: reasons.NotYetDue | reasons.NextTry) -> Iterator[remedy.Change]:
    yield remedy.Wait(reason.at)


def _wait(_found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield remedy.Wait(None)


def _more_runs(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    """Queued runs that come first need room, too. Where runs follow each other's ends, there is never room for more."""
    running, limit = tuple(found.around.running), found.run.running_runs + found.run.runs_ahead + 1
    if found.newest.is_continuous:
        yield from (remedy.EndRun(found.graph.dag_id, running),) if running else ()
    elif limit > found.newest.max_active_runs:
        yield remedy.RaiseRuns(found.graph.dag_id, found.around.path, limit, running)


def _upstream(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    """What is to end: above it, those that wait for nothing above them."""
    first = tuple(found.graph.label(index) for index in _frontier(found))
    yield remedy.EndUpstream(found.graph.dag_id, found.run.run.run_id, first)


def _instances(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    position = found.instance.index
    left = [i for i in found.instances if element_of(i) is not None and found.graph.node(i) is found.graph.nodes[position]]
    names = tuple(found.graph.label(i) for i in left if found.instances[i].state not in TASK_ENDED)
    yield remedy.EndUpstream(found.graph.dag_id, found.run.run.run_id, names)


def _frontier(found: Found) -> list[int]:
    first, seen, todo = [], set(), [found.instance.index]
    while todo:
        index = todo.pop()
        above = [up for up in found.graph.above[index] if found.state_of(up) not in TASK_ENDED]
        if not above and index != found.instance.index:
            first.append(index)
        todo += [up for up in above if up not in seen]
        seen.update(above)
    return sorted(first)


def _clear_cause(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    """Itself, where its trigger rule lets it run by now; else what failed before it, or was skipped."""
    again = msgspec.structs.replace(found.instance, elements=0)
    recount(found.graph, {**found.instances, again.index: again}, again.index)
    if apply_rule(found.graph.nodes[again.index], again, found.state_of) is TaskState.SCHEDULED:
        yield _clear(found, found.label)
    elif causes := _causes(found):
        yield _clear(found, *(found.graph.label(index) for index in causes))


def _causes(found: Found) -> list[int]:
    """Above it, what ended in a way that was passed on: a failure first, else a skip."""
    passed_on = TASK_FAILED if found.instance.state is TaskState.UPSTREAM_FAILED else {TaskState.SKIPPED}
    causes, seen, todo = [], set(), [found.instance.index]
    while todo:
        index = todo.pop()
        above = [up for up in found.graph.above[index] if found.state_of(up) in passed_on]
        if not above and index != found.instance.index:
            causes.append(index)
        todo += [up for up in above if up not in seen]
        seen.update(above)
    return sorted(causes)


def _nothing(_found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield from ()


def _clear_itself(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield _clear(found, found.label)


def _clear(found: Found, *labels: str) -> remedy.Clear:
    return remedy.Clear(found.graph.dag_id, found.run.run.run_id, labels)


def _past(found: Found, reason: reasons.PreviousRun) -> Iterator[remedy.Change]:
    """What failed in the run before is to run again; the rest of what holds it up is to end."""
    held = blocking_tasks(found.past, found.graph, found.instance.index)
    states = (found.past.states if found.past else None) or {}
    failed = tuple(task_id for task_id in held if states.get(task_id) in TASK_FAILED)
    left = tuple(task_id for task_id in held if task_id not in failed)
    if reason.run_id is not None:
        if failed:
            yield remedy.Clear(found.graph.dag_id, reason.run_id, failed)
        if left:
            yield remedy.EndUpstream(found.graph.dag_id, reason.run_id, left)


def _slots(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    if found.admission is not None and not _come_along(found, found.admission):
        names = tuple(" ".join((each.dag_id, each.run_id, each.task)) for each in found.in_pool)
        yield remedy.SetSlots(found.admission.pool.name, slots_needed(found.admission, found.occupied), names)


def _come_along(found: Found, admission: AdmissionState) -> bool:
    """Whether the slots that are missing come free with any task that is to end anyway."""
    *_, task = admission.waiting
    changes_ = [
        change
        for reason in Capacity(admission).limits_reached(task)
        if type(reason) in TASK_LIMITS
        for change in _of(found, reason)
    ]
    ends = {each for change in changes_ if isinstance(change, remedy.EndTasks) for each in change.tasks}
    freed = [each.slots for each in found.in_pool if (each.dag_id, each.run_id, each.task) in ends]
    missing = task.pool_slots + found.occupied - (admission.pool.slots or 0)
    return bool(freed) and len(freed) == len(ends) and min(freed) >= missing


def slots_needed(admission: AdmissionState, occupied: int) -> int:
    """How many slots the pool must have for the last in its queue to be admitted, whatever else limits that."""
    *_, task = admission.waiting
    if any(
        not isinstance(reason, reasons.PoolMissing | reasons.PoolTooSmall) for reason in Capacity(admission).limits_reached(task)
    ):
        return occupied + task.pool_slots  # nobody knows what else is admitted until then
    most = occupied + sum(each.pool_slots for each in {*admission.waiting, *admission.starving})
    sizes = range(occupied + task.pool_slots, most + 1)
    return sizes[bisect_left(sizes, 1, hi=len(sizes) - 1, key=lambda size: int(_suffices(admission, size - occupied, size)))]


def _suffices(admission: AdmissionState, free: int, size: int) -> bool:
    *_, task = admission.waiting
    pool = msgspec.structs.replace(admission.pool, open=free, slots=size, exists=True)
    return task in list(select_tasks(Capacity(msgspec.structs.replace(admission, pool=pool))))


def _run_limit(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    run = found.run.run
    yield _end("max_active_tasks", run.active_tasks - run.max_active_tasks + 1, found.in_run)


def _task_limit_in_dag(found: Found, reason: reasons.MaxActiveTisPerDag) -> Iterator[remedy.Change]:
    working = sum((dag_id, task_id) == _name(found) for dag_id, _, task_id in found.limited)
    yield _end("max_active_tis_per_dag", working - reason.limit + 1, found.of_task)


def _task_limit_in_run(found: Found, reason: reasons.MaxActiveTisPerDagrun) -> Iterator[remedy.Change]:
    working = sum((run, task_id) == (found.run.run.id, _name(found)[1]) for _, run, task_id in found.limited)
    of_run = [each for each in found.of_task if each.run_id == found.run.run.run_id]
    yield _end("max_active_tis_per_dagrun", working - reason.limit + 1, of_run)


def _name(found: Found) -> tuple[str, str]:
    return found.graph.dag_id, found.graph.node(found.instance.index).task.task_id


def _end(limit: str, count: int, of: Sequence[AtWork]) -> remedy.EndTasks:
    return remedy.EndTasks(limit, count, tuple((each.dag_id, each.run_id, each.task) for each in of))


def _parallelism(found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield remedy.SetParallelism(found.active + 1)


def _bring_back(_found: Found, reason: reasons.ServerUnreachable) -> Iterator[remedy.Change]:
    yield remedy.BringBack(reason.server)


def _start_daemon(_found: Found, _reason: Any) -> Iterator[remedy.Change]:
    yield remedy.StartDaemon()


_CHANGES: Mapping[type, Callable[[Found, Any], Iterator[remedy.Change]]] = {
    reasons.DagPaused: _unpause,
    reasons.DagStale: _restore,
    reasons.NotYetDue: _wait_for_time,
    reasons.NextTry: _wait_for_time,
    reasons.MaxActiveRuns: _more_runs,
    reasons.RunsAhead: _more_runs,
    reasons.UpstreamNotDone: _upstream,
    reasons.InstancesNotDone: _instances,
    reasons.PreviousRun: _past,
    reasons.PoolMissing: _slots,
    reasons.PoolTooSmall: _slots,
    reasons.PoolFull: _slots,
    reasons.MaxActiveTasks: _run_limit,
    reasons.MaxActiveTisPerDag: _task_limit_in_dag,
    reasons.MaxActiveTisPerDagrun: _task_limit_in_run,
    reasons.Parallelism: _parallelism,
    reasons.NoDaemon: _start_daemon,
    reasons.AttemptOpen: _wait,
    reasons.RunEnded: _clear_itself,
    reasons.TaskEnded: _clear_itself,
    reasons.OutsideDates: _nothing,
    reasons.RuledOut: _clear_cause,
    reasons.LowerPriority: _slots,
    reasons.NotSubmitted: _wait,
    reasons.ServerUnreachable: _bring_back,
}
