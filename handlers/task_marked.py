"""A user has it that a task of a run ended otherwise than it did: what comes after it is decided anew."""

from collections.abc import Iterator, Sequence

import msgspec

from tidegate.handlers.run_end_requested import ENDED_SO, NO_SUCH_RUN, State, find
from tidegate.handlers.run_requested import no_such_dag
from tidegate.handlers.runs.clear import set_back
from tidegate.handlers.runs.create import tasks_moved
from tidegate.handlers.scheduling.next_runs import look_at
from tidegate.handlers.tasks.advance import Advance, Move
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import ReconsiderAfter
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import Graph, element_of, position_of
from tidegate.schemas.message import Message, TaskMarked
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TaskState
from tidegate.schemas.view import DagView, Instance, RunView

NO_SUCH_TASK = "no_such_task"
MARKED = "marked by a user"
UNDECIDED_AGAIN = frozenset({TaskState.UPSTREAM_FAILED, TaskState.SKIPPED})


async def load(db: Db, messages: Sequence[Message[TaskMarked]]) -> State:
    (asked,) = (message.body for message in messages)
    return await find(db, asked.dag_id, asked.run_id)


def decide(messages: Sequence[Message[TaskMarked]], state: State) -> Iterator[Effect]:
    (asked,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(asked.dag_id)
    elif state.run is None or state.graph is None:
        yield RejectMessage(0, NO_SUCH_RUN, f"DAG {asked.dag_id!r} has no run {asked.run_id!r}")
    elif (marked := _find(state.graph, state.tasks, asked.task_id)) is None:
        yield RejectMessage(0, NO_SUCH_TASK, f"run {asked.run_id!r} has no task {asked.task_id!r}, or has not started")
    elif marked.state is asked.state:
        yield RejectMessage(0, ENDED_SO, f"task {asked.task_id!r} of run {asked.run_id!r} is {asked.state} already")
    else:
        yield from _mark(state.dag, state.run, state.graph, state, marked, asked.state)


def _find(graph: Graph, instances: Sequence[Instance], task_id: str) -> Instance | None:
    """Tasks as a whole: an instance of a mapped task is not marked alone."""
    whole = (each for each in instances if element_of(each.index) is None)
    return next((each for each in whole if graph.label(each.index) == task_id), None)


def _mark(dag: DagView, run: RunView, graph: Graph, found: State, marked: Instance, state: TaskState) -> Iterator[Effect]:
    """What was decided because of how it ended is undone: those after it that were given up or skipped wait again."""
    elements = [each for each in found.tasks if _is_going_element(each, marked)]
    active = [each for each in (marked, *elements) if each.state in TASK_ACTIVE]
    yield from (KillSubmissions(run.id, each.index, MARKED) for each in active)
    marked.state, marked.next_try_at = state, None
    for element in elements:
        element.state, element.next_try_at = TaskState.REMOVED, None
    moves = tuple(Move(each.index, each.state, each.try_number, MARKED) for each in (marked, *elements))
    yield from tasks_moved(run, graph, Advance((), moves, 0, 0), found.now, outlets=False)
    run = msgspec.structs.replace(run, task_seq=run.task_seq + len(moves), active_tasks=run.active_tasks - len(active))
    instances = {instance.index: instance for instance in found.tasks}
    below = _given_up_below(graph, instances, marked.index)
    yield from set_back(run, graph, instances, below, found.now, written=frozenset(move.index for move in moves))
    yield look_at(dag, found.now)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)


def _is_going_element(instance: Instance, mapped: Instance) -> bool:
    of_it = element_of(instance.index) is not None and position_of(instance.index) == mapped.index
    return of_it and instance.state not in TASK_ENDED


def _given_up_below(graph: Graph, instances: dict[int, Instance], index: int) -> list[int]:
    found: set[int] = set()
    todo = [index]
    while todo:
        for below in graph.nodes[todo.pop()].downstream:
            if below not in found and below in instances and instances[below].state in UNDECIDED_AGAIN:
                found.add(below)
                todo.append(below)
    return sorted(found)
