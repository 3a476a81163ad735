"""A user marks a task of a run as succeeded or failed: the tasks downstream are decided again."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.handlers.load import WholeRun, lock_run
from tidegate.handlers.runs.clear import clear_tasks
from tidegate.handlers.runs.rejections import ALREADY_ENDED, NO_SUCH_TASK, no_such_dag, no_such_run
from tidegate.handlers.scheduling.next_runs import set_wakeup
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import ReconsiderAfter
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import Graph, element_of, position_of, reachable
from tidegate.schemas.message import MARKED_BY, Message, TaskMarked, request_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TaskState
from tidegate.schemas.view import DagView, Instance, RunView

DECIDED_BY_UPSTREAM = frozenset({TaskState.UPSTREAM_FAILED, TaskState.SKIPPED})


async def load(db: Db, messages: Sequence[Message[TaskMarked]]) -> WholeRun:
    request = request_of(messages)
    return await lock_run(db, request.dag_id, request.run_id)


def decide(messages: Sequence[Message[TaskMarked]], state: WholeRun) -> Iterator[Effect]:
    request = request_of(messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
    elif state.run is None or state.graph is None:
        yield no_such_run(request.dag_id, request.run_id)
    elif (marked := _task_named(state.graph, state.tasks, request.task_id)) is None:
        yield RejectMessage(NO_SUCH_TASK, f"run {request.run_id!r} has no task {request.task_id!r}, or has not started")
    elif marked.state is request.state:
        yield RejectMessage(ALREADY_ENDED, f"task {request.task_id!r} of run {request.run_id!r} is already {request.state}")
    else:
        yield from _mark(state.dag, state.run, state.graph, state, marked, request)


def _task_named(graph: Graph, instances: Sequence[Instance], task_id: str) -> Instance | None:
    """The task of that name. An instance of a mapped task cannot be marked alone."""
    whole = (instance for instance in instances if element_of(instance.index) is None)
    return next((instance for instance in whole if graph.label(instance.index) == task_id), None)


def _mark(dag: DagView, run: RunView, graph: Graph, whole: WholeRun, marked: Instance, request: TaskMarked) -> Iterator[Effect]:
    """Tasks downstream that were skipped or failed upstream because of the earlier state wait again."""
    reason = f"{MARKED_BY}{request.user}"
    elements = [instance for instance in whole.tasks if _is_unfinished_element(instance, marked)]
    active = [instance for instance in (marked, *elements) if instance.state in TASK_ACTIVE]
    yield from (KillSubmissions(run.id, instance.index, reason) for instance in active)
    marked.state, marked.next_try_at, marked.reason = request.state, None, reason
    for element in elements:
        element.state, element.next_try_at, element.reason = TaskState.REMOVED, None, reason
    moves = [Move(instance.index, instance.state, instance.try_number, reason) for instance in (marked, *elements)]
    run = msgspec.structs.replace(run, active_tasks=run.active_tasks - len(active))
    instances = {instance.index: instance for instance in whole.tasks}
    below = _undecided_below(graph, instances, marked.index)
    cause = f"cleared because task {graph.label(marked.index)} was marked by {request.user}"
    yield from clear_tasks(run, graph, instances, below, whole.now, cause=cause, marked=moves)
    yield set_wakeup(dag, whole.now)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)


def _is_unfinished_element(instance: Instance, mapped: Instance) -> bool:
    of_it = element_of(instance.index) is not None and position_of(instance.index) == mapped.index
    return of_it and instance.state not in TASK_ENDED


def _undecided_below(graph: Graph, instances: Mapping[int, Instance], index: int) -> list[int]:
    """The tasks downstream whose decisions followed from a task, directly or transitively."""

    def undecided(index: int) -> list[int]:
        present = [instances[below] for below in graph.downstream_of(index) if below in instances]
        return [instance.index for instance in present if instance.state in DECIDED_BY_UPSTREAM]

    return sorted(reachable(undecided(index), undecided))
