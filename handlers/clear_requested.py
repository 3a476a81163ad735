"""A user wants tasks of runs to run again. Earlier attempts stay in the history, and tries are counted on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import read_dags
from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks
from tidegate.handlers.runs.rejections import NO_SUCH_TASK, no_such_dag
from tidegate.handlers.scheduling.next_runs import look_at
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ClearRequested, Message
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import DagView, Instance, RunView

NOTHING_TO_CLEAR = "nothing_to_clear"


class State(msgspec.Struct, frozen=True):
    """The DAG, and the runs that were asked for with all their tasks, locked."""

    now: datetime
    dag: DagView | None
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    tasks: Mapping[int, Mapping[int, Instance]] = {}


async def load(db: Db, messages: Sequence[Message[ClearRequested]]) -> State:
    (asked,) = (message.body for message in messages)
    held = await dags.lock(db, [asked.dag_id])
    if not held:
        return State(db.now, None)
    locked = await runs.lock(db, await runs.matching(db, asked.dag_id, asked.run_id, asked.start, asked.end))
    instances = await tasks.of_runs(db, locked)
    (found,) = await read_dags(db, held)
    return State(db.now, found, locked, await versions.graphs(db, {run.version_id for run in locked.values()}), instances)


def decide(messages: Sequence[Message[ClearRequested]], state: State) -> Iterator[Effect]:
    (asked,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(asked.dag_id)
        return
    if unknown := _unknown(asked, state):
        yield RejectMessage(0, NO_SUCH_TASK, f"DAG {asked.dag_id!r} has no task {unknown!r} in these runs")
        return
    started = [run for run in state.runs.values() if state.tasks.get(run.id)]
    effects = [effect for run in started for effect in _clear(run, asked, state.dag.graph, state)]
    if not effects:
        yield _nothing(asked, state)
        return
    yield from effects
    yield look_at(state.dag, state.now)


def _clear(run: RunView, asked: ClearRequested, newest: Graph, state: State) -> list[Effect]:
    graph, instances = state.graphs[run.version_id], dict(state.tasks[run.id])
    before: list[Effect] = []
    if asked.newest and run.version_id != newest.version_id and run.state is not RunState.RUNNING:
        before, instances = change_version(run, graph, newest, instances, state.now)
        graph = newest
    chosen = choose(graph, instances, asked)
    return [*before, *clear_tasks(run, graph, instances, chosen, state.now)] if chosen else []


def choose(graph: Graph, instances: Mapping[int, Instance], asked: ClearRequested) -> list[int]:
    """The tasks to set back: those asked for, and what prepares and removes what they need."""
    named = {i for i, node in enumerate(graph.nodes) if not asked.task_ids or node.task.task_id in asked.task_ids}
    chosen = set(named)
    if asked.downstream:
        chosen |= _reached(named, [node.downstream for node in graph.nodes])
    if asked.upstream:
        chosen |= _reached(named, graph.above)
    if asked.only_failed:
        chosen = {index for index in chosen if index in instances and instances[index].state in TASK_FAILED}
    parts = {index for index, instance in instances.items() if instance.state is not TaskState.REMOVED}
    return sorted(_with_surroundings(graph, chosen) & parts)


def _with_surroundings(graph: Graph, chosen: set[int]) -> set[int]:
    """With the setups and teardowns between which the chosen tasks stand."""
    below, above = [node.downstream for node in graph.nodes], graph.above
    around = set(chosen)
    for index, node in enumerate(graph.nodes):
        inside = _reached(set(node.setups), below) & _reached({index}, above)
        if inside & chosen or index in chosen:
            around |= {index, *node.setups} if node.setups else set()
    return around


def _reached(start: set[int], neighbours: Sequence[Iterable[int]]) -> set[int]:
    found, todo = set(start), list(start)
    while todo:
        new = set(neighbours[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _nothing(asked: ClearRequested, state: State) -> RejectMessage:
    if not state.runs:
        what = f"run {asked.run_id!r}" if asked.run_id else "run in that time"
        return RejectMessage(0, NOTHING_TO_CLEAR, f"DAG {asked.dag_id!r} has no {what}")
    return RejectMessage(0, NOTHING_TO_CLEAR, "no task of these runs is to be cleared: none has started, or none has failed")


def _unknown(asked: ClearRequested, state: State) -> str | None:
    """A task that was asked for and that none of the runs has; where there are no runs that is another matter."""
    graphs = [*state.graphs.values(), *([state.dag.graph] if state.dag and asked.newest else [])]
    known = {node.task.task_id for graph in graphs for node in graph.nodes}
    return next((task_id for task_id in asked.task_ids if state.runs and task_id not in known), None)
