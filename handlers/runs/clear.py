"""Tasks of a run are set back so that they run again, and the run with them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from tidegate.handlers.attempt_ends import CLEARED
from tidegate.handlers.runs.create import moved, tasks_moved
from tidegate.handlers.runs.rows import update_task
from tidegate.handlers.tasks.advance import Advance, Move
from tidegate.handlers.tasks.upstream_counts import count_anew
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import Reconsider, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import DropResult
from tidegate.schemas.graph import Graph, element_of, position_of
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import Instance, RunView

UNDONE = frozenset(TaskState) - TASK_ACTIVE - {TaskState.NONE}
KEPT = frozenset(TaskState) - {TaskState.REMOVED}
SET_ASIDE = "its mapped task was cleared by a user"


def set_back(
    run: RunView,
    graph: Graph,
    instances: Mapping[int, Instance],
    chosen: Collection[int],
    now: datetime,
    *,
    written: frozenset[int] = frozenset(),
) -> Iterator[Effect]:
    """Let the chosen tasks run again, and write those that were changed besides.

    Those at work are killed first, and tried again once that is confirmed. A run that had ended is queued, behind its DAG's
    limits; one at work goes on.
    """
    elements = _elements_of(graph, instances, chosen)
    yield from (DropResult(run.id, index) for index in (*chosen, *elements))
    moves = [Move(index, TaskState.REMOVED, instances[index].try_number, SET_ASIDE) for index in elements]
    moves += [Move(i, TaskState.NONE, instances[i].try_number, CLEARED) for i in chosen if instances[i].state in UNDONE]
    killed = [instances[index] for index in (*chosen, *elements) if instances[index].state in TASK_ACTIVE]
    yield from (KillSubmissions(run.id, each.index, SET_ASIDE if each.index in elements else CLEARED) for each in killed)
    run = msgspec.structs.replace(run, active_tasks=run.active_tasks - sum(each.index in elements for each in killed))
    for index in elements:
        instances[index].state, instances[index].next_try_at = TaskState.REMOVED, None
    for index in chosen:
        _begin_again(instances[index], graph.nodes[index].task)
    for index, instance in instances.items():
        if instance.state is TaskState.NONE:
            count_anew(graph, instances, index)
        if instance.state is TaskState.NONE or index in written.union(chosen, elements):
            yield update_task(run, instance, now)
    yield from tasks_moved(run, graph, Advance((), tuple(moves), 0, 0), now)
    yield from _queue(run, graph, instances.values(), len(moves), now)


def _begin_again(instance: Instance, task: BaseTask) -> None:
    """With tries as if it were new; one at work stays so until it was killed."""
    instance.max_tries = instance.try_number + task.retries + 1
    instance.elements = 0
    if instance.state not in TASK_ACTIVE:
        instance.state, instance.next_try_at = TaskState.NONE, None
        instance.waits_for_past = task.depends_on_past or task.wait_for_downstream


def _queue(run: RunView, graph: Graph, instances: Iterable[Instance], moves: int, now: datetime) -> Iterator[Effect]:
    states = {instance.index: instance.state for instance in instances if element_of(instance.index) is None}
    after = UpdateRun(
        id=run.id,
        state=RunState.QUEUED if run.state in RUN_ENDED else run.state,
        state_seq=run.state_seq,
        task_seq=run.task_seq + moves,
        unfinished=sum(state not in TASK_ENDED for state in states.values()),
        failed_leaves=sum(state in TASK_FAILED and graph.nodes[index].decisive for index, state in states.items()),
        active_tasks=run.active_tasks,
    )
    if run.state in RUN_ENDED:
        yield msgspec.structs.replace(after, state_seq=run.state_seq + 1)
        yield moved(run, RunState.QUEUED, run.state_seq + 1, now, CLEARED)
    else:
        yield after
    if run.state is RunState.RUNNING:
        yield Reconsider(run.id)


def _elements_of(graph: Graph, instances: Mapping[int, Instance], chosen: Collection[int]) -> list[int]:
    """The instances of chosen mapped tasks: what these are mapped over may be another list by then."""
    if not graph.mapped:
        return []
    return [i for i, it in instances.items() if element_of(i) is not None and position_of(i) in chosen and it.state in KEPT]
