"""What a request to clear tasks would clear."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.daemon.read_model.lookup import find_dag, find_run, names
from tidegate.handlers.clear_requested import State, decide, load
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import InsertTask, TaskMoved
from tidegate.schemas.error import RequestError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ClearRequested, Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunStateName
from tidegate.schemas.text import counted
from tidegate.schemas.view import RunView


class ClearedRun(msgspec.Struct, frozen=True):
    """A run, its state before, and its tasks that run again."""

    run_id: str
    logical_date: datetime | None
    state: RunStateName
    tasks: Sequence[str]


async def preview(db: Db, request: ClearRequested) -> tuple[ClearRequested, list[ClearedRun]]:
    """The request with the id of `latest`, and what it would clear, by the handler's own decision; nothing is changed."""
    if request.run_id is None:
        await find_dag(db, request.dag_id)
    else:
        request = msgspec.structs.replace(request, run_id=(await find_run(db, request.dag_id, request.run_id)).run_id)
    messages = [Message(body=request, at=db.now)]
    state = await load(db, messages)
    _check_tasks(request, state)
    effects = list(decide(messages, state))
    if refused := [effect for effect in effects if isinstance(effect, RejectMessage)]:
        raise RequestError(refused[0].message)
    changed, tasks = {effect.id for effect in effects if isinstance(effect, UpdateRun)}, _tasks(effects, state)
    return request, [
        _cleared_run(run, tasks[id_], _graph(run, request, state)) for id_, run in state.runs.items() if id_ in changed
    ]


def _check_tasks(request: ClearRequested, state: State) -> None:
    """Raises RequestError for a task id that no run has."""
    graphs = [*state.graphs.values(), *([state.dag.graph] if request.newest and state.dag else ())]
    known = {node.task.task_id: None for graph in graphs for node in graph.nodes}
    if state.runs and (unknown := [task_id for task_id in request.task_ids if task_id not in known]):
        raise RequestError(f"DAG {request.dag_id!r} has no task {unknown[0]!r} in these runs; its tasks are {names(known)}")


def _tasks(effects: Sequence[Effect], state: State) -> Mapping[int, set[str]]:
    """By run id, the tasks that run again, and new ones of the newest version."""
    tasks: dict[int, set[str]] = defaultdict(set)
    for effect in effects:
        match effect:
            case TaskMoved(dag_run_id, event):
                tasks[dag_run_id].add(event.label)
            case InsertTask(dag_run_id=dag_run_id, task_id=task_id):
                tasks[dag_run_id].add(task_id)
            case KillSubmissions(dag_run_id, int(index)):
                graph = state.graphs[state.runs[dag_run_id].version_id]
                tasks[dag_run_id].add(graph.node(index).task.task_id)
            case _:
                pass
    return tasks


def _graph(run: RunView, request: ClearRequested, state: State) -> Graph:
    return state.dag.graph if request.newest and state.dag else state.graphs[run.version_id]


def _cleared_run(run: RunView, tasks: set[str], graph: Graph) -> ClearedRun:
    in_order = [node.task.task_id for node in graph.nodes if node.task.task_id in tasks]
    return ClearedRun(run.run_id, run.logical_date, run.state, in_order)


def cleared_text(runs: Sequence[ClearedRun]) -> str:
    """`3 tasks of 1 run`."""
    tasks = sum(len(run.tasks) for run in runs)
    return f"{counted(tasks, 'task', 'tasks')} of {counted(len(runs), 'run', 'runs')}"
