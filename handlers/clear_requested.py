"""A user clears tasks: they run again. Earlier attempts stay in the history, and the tries are counted on."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load import read_dags
from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks
from tidegate.handlers.runs.clear_selection import tasks_to_clear
from tidegate.handlers.runs.rejections import NO_SUCH_TASK, no_such_dag
from tidegate.handlers.scheduling.next_runs import set_wakeup
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ClearRequested, Message
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, Instance, RunView

NOTHING_TO_CLEAR = "nothing_to_clear"


class State(msgspec.Struct, frozen=True):
    """The DAG, and the requested runs with all their tasks, locked."""

    now: datetime
    dag: DagView | None
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    tasks: Mapping[int, Mapping[int, Instance]] = {}


async def load(db: Db, messages: Sequence[Message[ClearRequested]]) -> State:
    (request,) = (message.body for message in messages)
    locked_dags = await dags.lock(db, [request.dag_id])
    if not locked_dags:
        return State(db.now, None)
    locked = await runs.lock(db, await runs.matching(db, request.dag_id, request.run_id, request.start, request.end))
    instances = await tasks.of_runs(db, locked)
    (dag,) = await read_dags(db, locked_dags)
    return State(db.now, dag, locked, await versions.graphs(db, {run.version_id for run in locked.values()}), instances)


def decide(messages: Sequence[Message[ClearRequested]], state: State) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    if unknown := _unknown_task(request, state):
        yield RejectMessage(0, NO_SUCH_TASK, f"DAG {request.dag_id!r} has no task {unknown!r} in these runs")
        return
    started = [run for run in state.runs.values() if state.tasks.get(run.id)]
    effects = [effect for run in started for effect in _clear(run, request, state.dag.graph, state)]
    if not effects:
        yield _nothing_to_clear(request, state)
        return
    yield from effects
    yield set_wakeup(state.dag, state.now)


def _clear(run: RunView, request: ClearRequested, newest: Graph, state: State) -> list[Effect]:
    graph, instances = state.graphs[run.version_id], dict(state.tasks[run.id])
    version_effects: list[Effect] = []
    if request.newest and run.version_id != newest.version_id and run.state is not RunState.RUNNING:
        version_effects, instances = change_version(run, graph, newest, instances, state.now)
        graph = newest
    cleared = tasks_to_clear(graph, instances, request)
    return [*version_effects, *clear_tasks(run, graph, instances, cleared, state.now, by=request.user)] if cleared else []


def _nothing_to_clear(request: ClearRequested, state: State) -> RejectMessage:
    if not state.runs:
        missing = f"run {request.run_id!r}" if request.run_id else "run in that time"
        return RejectMessage(0, NOTHING_TO_CLEAR, f"DAG {request.dag_id!r} has no {missing}")
    return RejectMessage(0, NOTHING_TO_CLEAR, "these runs have no task to clear: none has started, or none has failed")


def _unknown_task(request: ClearRequested, state: State) -> str | None:
    """A requested task that none of the runs has; None where there are no runs at all."""
    graphs = [*state.graphs.values(), *([state.dag.graph] if state.dag and request.newest else [])]
    known = {node.task.task_id for graph in graphs for node in graph.nodes}
    return next((task_id for task_id in request.task_ids if state.runs and task_id not in known), None)
