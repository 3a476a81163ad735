"""What `runs clear` and `tasks clear` share: list the tasks that would run again, ask, and clear them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypedDict

import msgspec
import typer

from tidegate.daemon.cli.command import confirm
from tidegate.daemon.cli.lookup import find_dag, find_run
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import current_user, query, read_settings, with_database
from tidegate.handlers.clear_requested import State, decide, load
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import InsertTask, TaskMoved
from tidegate.schemas.error import RequestError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import ClearRequested, Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import RunView

TITLES = ("RUN", "LOGICAL DATE", "STATE", "TASKS")


class ClearOptions(TypedDict):
    """Options that extend or restrict the cleared tasks."""

    upstream: Annotated[bool, typer.Option("--upstream", help="Also clear all tasks before these.")]
    no_downstream: Annotated[bool, typer.Option("--no-downstream", help="Do not clear the tasks after these.")]
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Clear only tasks that failed, or whose upstream did.")]
    newest_version: Annotated[
        bool, typer.Option("--newest-version", help="Move runs to the newest version of the DAG. Only for runs that have ended.")
    ]


class ClearedRun(msgspec.Struct, frozen=True):
    """A run, its state before, and its tasks that run again."""

    run_id: str
    logical_date: datetime | None
    state: str
    tasks: Sequence[str]


def clear_tasks(context: typer.Context, wanted: ClearRequested, options: ClearOptions, *, yes: bool, json: bool) -> None:
    """Clear the runs and tasks that `wanted` names, as the options say.

    Raises RequestError if there is nothing to clear or the user declines, BadParameter without a terminal to ask on.
    """
    from tidegate.daemon.request import apply_request

    wanted = msgspec.structs.replace(
        wanted,
        upstream=options["upstream"],
        downstream=not options["no_downstream"],
        only_failed=options["only_failed"],
        newest=options["newest_version"],
        user=current_user(read_settings(context)),
    )
    request, runs = query(context, _preview, wanted)
    if not json:
        output.table(TITLES, map(_cells, runs), empty="nothing")
    if not yes:
        confirm("clear", _count(runs))
    with_database(context, lambda database: apply_request(database, request))
    output.write_result({"dag_id": request.dag_id, "runs": runs}, f"cleared {_count(runs)}", json=json)


async def _preview(db: Db, request: ClearRequested) -> tuple[ClearRequested, list[ClearedRun]]:
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
        raise RequestError(f"DAG {request.dag_id!r} has no task {unknown[0]!r} in these runs; its tasks are {', '.join(known)}")


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


def _count(runs: Sequence[ClearedRun]) -> str:
    tasks = sum(len(run.tasks) for run in runs)
    return f"{tasks} {'task' if tasks == 1 else 'tasks'} of {len(runs)} {'run' if len(runs) == 1 else 'runs'}"


def _cells(run: ClearedRun) -> tuple[output.Cell, ...]:
    return run.run_id, run.logical_date, run.state, ", ".join(run.tasks)
