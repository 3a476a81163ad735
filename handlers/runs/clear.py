"""Tasks of a run are cleared: they run again, and so does the run."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.runs.reason import Reason
from tidegate.handlers.runs.task_effects import update_task
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.handlers.tasks.upstream_counts import recount, recount_elements
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import Reconsider
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import DropResult, UpdateTask
from tidegate.schemas.graph import Graph, element_of, position_of
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, TASK_FAILED, KillCause, RunState, TaskState
from tidegate.schemas.view import Instance, RunView

MOVED_AT_ONCE = frozenset(TaskState) - TASK_ACTIVE - {TaskState.NONE}
"""The states that a cleared task leaves now; an active task does so once its attempt was killed."""


def cleared_by(name: str) -> str:
    """The cause of a clear by a user or a backfill."""
    return f"cleared by {name}"


def _replaced(cause: str) -> str:
    return f"its mapped task was {cause}"


def clear_tasks(
    run: RunView,
    graph: Graph,
    instances: Mapping[int, Instance],
    cleared: Collection[int],
    now: datetime,
    *,
    cause: str,
    marked: Sequence[Move] = (),
) -> Iterator[Effect]:
    """Clear tasks, and write the ones that a user has `marked`. Changes `instances`. `cause` is the reason of each new state.

    An active task is killed first, and runs again after its attempt has ended. An ended run is queued, under the limits of its
    DAG; a running one keeps running. Instances of a cleared mapped task are removed: its list may change. Of a mapped task of
    which single instances are cleared, the others stay, and the task waits for all again.
    """
    reopened = {position_of(index) for index in cleared if element_of(index) is not None}
    elements = _elements_of(graph, instances, cleared)
    yield from (DropResult(run.id, index) for index in (*cleared, *elements))
    active = [index for index in (*cleared, *elements) if instances[index].state in TASK_ACTIVE]
    for index in active:
        reason, kill = (_replaced(cause), KillCause.STOPPED) if index in elements else (cause, KillCause.CLEARED)
        yield KillSubmissions(run.id, index, reason, kill)
    waiting = [*cleared, *sorted(reopened)]
    moves = [*marked, *_moves(instances, waiting, elements, cause)]
    for index in elements:
        instances[index].state, instances[index].next_try_at = TaskState.REMOVED, None
        instances[index].reason = _replaced(cause)
    for index in cleared:
        _reset(instances[index], graph.node(index).task)
    for position in reopened:
        instances[position].state, instances[position].reason = TaskState.NONE, ""
        recount_elements(instances, position)
    yield from _write_tasks(run, graph, instances, {move.index for move in moves}.union(waiting), now)
    run = msgspec.structs.replace(run, active_tasks=run.active_tasks - sum(index in elements for index in active))
    after = _cleared_run(run, graph, instances.values())
    yield from change_run(run, after, graph, moves, now, Reason(cause, outlets=False))
    if run.state is RunState.RUNNING:
        yield Reconsider(run.id)


def _moves(instances: Mapping[int, Instance], cleared: Collection[int], elements: Collection[int], cause: str) -> Iterator[Move]:
    yield from (Move(index, TaskState.REMOVED, instances[index].try_number, _replaced(cause)) for index in elements)
    for index in cleared:
        if instances[index].state in MOVED_AT_ONCE:
            yield Move(index, TaskState.NONE, instances[index].try_number, cause)


def _write_tasks(
    run: RunView, graph: Graph, instances: Mapping[int, Instance], changed: Collection[int], now: datetime
) -> Iterator[UpdateTask]:
    """The changed tasks, and the waiting ones with their new counts."""
    for index, instance in instances.items():
        if instance.state is TaskState.NONE and element_of(index) is None:
            recount(graph, instances, index)
        if instance.state is TaskState.NONE or index in changed:
            yield update_task(run, instance, now)


def _reset(instance: Instance, task: BaseTask) -> None:
    """Give an instance all its tries again. An active one keeps its state until its attempt was killed."""
    instance.max_tries = instance.try_number + task.retries + 1
    instance.elements, instance.reason = 0, ""
    if instance.state not in TASK_ACTIVE:
        instance.state, instance.next_try_at = TaskState.NONE, None
        instance.waits_for_past = element_of(instance.index) is None and (task.depends_on_past or task.wait_for_downstream)


def _cleared_run(run: RunView, graph: Graph, instances: Iterable[Instance]) -> RunView:
    states = {instance.index: instance.state for instance in instances if element_of(instance.index) is None}
    return msgspec.structs.replace(
        run,
        state=RunState.QUEUED if run.state in RUN_ENDED else run.state,
        unfinished=sum(state not in TASK_ENDED for state in states.values()),
        failed_leaves=sum(state in TASK_FAILED and graph.nodes[index].decisive for index, state in states.items()),
    )


def _elements_of(graph: Graph, instances: Mapping[int, Instance], cleared: Collection[int]) -> Collection[int]:
    """The instances of cleared mapped tasks, in their order."""
    if not graph.mapped:
        return ()
    tasks = frozenset(cleared)
    present = (index for index, instance in instances.items() if instance.state is not TaskState.REMOVED)
    return dict.fromkeys(index for index in present if element_of(index) is not None and position_of(index) in tasks)
