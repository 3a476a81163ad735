"""A user clears tasks: they run again. Earlier attempts stay in the history, and the tries are counted on."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load import read_dags
from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks, cleared_by
from tidegate.handlers.runs.clear_selection import tasks_to_clear
from tidegate.handlers.runs.rejections import NO_SUCH_TASK, no_such_dag
from tidegate.handlers.scheduling.next_runs import set_wakeup
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ClearRequested, Message, request_of
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, Instance, RunView

NOTHING_TO_CLEAR = "nothing_to_clear"
NOT_AS_SHOWN = "not_as_shown"
TOO_MANY_RUNS = "too_many_runs"
STILL_RUNNING = "still_running"

MAX_CLEARED_RUNS = 10_000
"""The most runs of a request, whether they have something to clear or not."""

MAX_CLEARED_TASKS = 100_000
"""About the most tasks of the runs of a request, unless it is one run: all are read, and written in one transaction."""


class State(msgspec.Struct, frozen=True):
    """The DAG, and the requested runs with all their tasks, locked. `too_many`: their number where they are not read."""

    now: datetime
    dag: DagView | None
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    tasks: Mapping[int, Mapping[int, Instance]] = {}
    too_many: int = 0


async def load(db: Db, messages: Sequence[Message[ClearRequested]]) -> State:
    request = request_of(messages)
    locked_dags = await dags.lock(db, [request.dag_id])
    if not locked_dags:
        return State(db.now, None)
    (dag,) = await read_dags(db, locked_dags)
    found = await runs.matching(db, request.dag_id, request.run_id, request.start, request.end)
    if len(found) > MAX_CLEARED_RUNS or len(await tasks.first_runs(db, found, MAX_CLEARED_TASKS)) < len(found):
        return State(db.now, dag, too_many=len(found))
    locked = await runs.lock(db, found)
    instances = await tasks.of_runs(db, locked)
    return State(db.now, dag, locked, await versions.graphs(db, {run.version_id for run in locked.values()}), instances)


def decide(messages: Sequence[Message[ClearRequested]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    if state.too_many:
        yield _too_many(state.too_many)
        return
    if unknown := _unknown_task(request, state.dag.graph, state):
        yield RejectMessage(NO_SUCH_TASK, f"DAG {request.dag_id!r} has no task {unknown!r} in these runs")
        return
    started = [run for run in state.runs.values() if state.tasks.get(run.id)]
    cleared = {run.run_id: effects for run in started if (effects := _clear(run, request, state.dag.graph, state))}
    if refusal := _rejection(request, state, state.dag.graph, cleared):
        yield refusal
        return
    for effects in cleared.values():
        yield from effects
    yield set_wakeup(state.dag, state.now)


def _clear(run: RunView, request: ClearRequested, newest: Graph, state: State) -> list[Effect]:
    graph, instances = state.graphs[run.version_id], dict(state.tasks[run.id])
    version_effects: list[Effect] = []
    if _changes_version(run, request, newest):
        version_effects, instances = change_version(run, graph, newest, instances, state.now)
        graph = newest
    cleared = tasks_to_clear(graph, instances, request)
    if not cleared:
        return []
    return [*version_effects, *clear_tasks(run, graph, instances, cleared, state.now, cause=cleared_by(request.user))]


def _changes_version(run: RunView, request: ClearRequested, newest: Graph) -> bool:
    return request.newest and run.version_id != newest.version_id


def _rejection(request: ClearRequested, state: State, newest: Graph, cleared: Collection[str]) -> RejectMessage | None:
    if not cleared:
        return _nothing_to_clear(request, state)
    if running := _running(request, state, newest, cleared):
        said = f"run {running[0]!r} is running with an older version: cancel it first, or do not ask for the newest version"
        return RejectMessage(STILL_RUNNING, said)
    if request.shown is None or not (others := {*cleared} ^ {*request.shown}):
        return None
    said = f"the runs to clear changed since they were shown ({min(others)!r} differs); show them again, and repeat"
    return RejectMessage(NOT_AS_SHOWN, said)


def _running(request: ClearRequested, state: State, newest: Graph, cleared: Collection[str]) -> list[str]:
    """The runs that cannot change their version: by it the ends of their attempts are decided about."""
    running = (run for run in state.runs.values() if run.state is RunState.RUNNING and run.run_id in cleared)
    return [run.run_id for run in running if _changes_version(run, request, newest)]


def _too_many(runs: int) -> RejectMessage:
    most = f"at most {MAX_CLEARED_RUNS:,} runs, of about {MAX_CLEARED_TASKS:,} tasks together"
    return RejectMessage(TOO_MANY_RUNS, f"these are {runs:,} runs; one request clears {most}: choose a shorter time range")


def _nothing_to_clear(request: ClearRequested, state: State) -> RejectMessage:
    if not state.runs:
        missing = f"run {request.run_id!r}" if request.run_id is not None else "run in that time"
        return RejectMessage(NOTHING_TO_CLEAR, f"DAG {request.dag_id!r} has no {missing}")
    return RejectMessage(NOTHING_TO_CLEAR, "these runs have no task to clear: none has started, or none has failed")


def _unknown_task(request: ClearRequested, newest: Graph, state: State) -> str | None:
    """A requested task that none of the runs has; None where there are no runs at all."""
    graphs = [*state.graphs.values(), *([newest] if request.newest else [])]
    known = {node.task.task_id for graph in graphs for node in graph.nodes}
    return next((task_id for task_id in request.task_ids if state.runs and task_id not in known), None)
