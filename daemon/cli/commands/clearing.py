"""Clear tasks so that they run again: say first which, and ask where somebody can be asked."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from tidegate.daemon.cli.agreement import agree
from tidegate.daemon.cli.lookup import find_dag, find_run
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, with_database
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

Upstream = Annotated[bool, typer.Option("--upstream", help="Also everything before these tasks.")]
NoDownstream = Annotated[bool, typer.Option("--no-downstream", help="These tasks alone, not what comes after them.")]
OnlyFailed = Annotated[bool, typer.Option("--only-failed", help="Of all these only what failed, or never ran because of that.")]
Newest = Annotated[
    bool, typer.Option("--newest-version", help="On the DAG's newest version; else each run keeps its own. Not for runs at work.")
]


class ToClear(msgspec.Struct, frozen=True):
    """A run, its state until now, and which of its tasks run again."""

    run_id: str
    logical_date: datetime | None
    state: str
    tasks: Sequence[str]


def clear(context: typer.Context, asked: ClearRequested, *, yes: bool, json: bool) -> None:
    """Raises RequestError when there is nothing to clear, or the answer is no; BadParameter when nobody can be asked."""
    from tidegate.daemon.cli.request import ask

    asked, found = query(context, _foresee, asked)
    if not json:
        output.table(TITLES, map(_cells, found), empty="nothing")
    if not yes:
        agree("clear", _sum(found))
    with_database(context, lambda database: ask(database, asked))
    if json:
        output.write_json({"dag_id": asked.dag_id, "runs": found})
    else:
        output.write(f"cleared {_sum(found)}")


async def _foresee(db: Db, asked: ClearRequested) -> tuple[ClearRequested, list[ToClear]]:
    """What it would clear, by the decision itself; nothing is changed."""
    if asked.run_id is None:
        await find_dag(db, asked.dag_id)
    else:
        asked = msgspec.structs.replace(asked, run_id=(await find_run(db, asked.dag_id, asked.run_id)).run_id)
    messages = [Message(body=asked, at=db.now)]
    state = await load(db, messages)
    _check_tasks(asked, state)
    effects = list(decide(messages, state))
    if refused := [effect for effect in effects if isinstance(effect, RejectMessage)]:
        raise RequestError(refused[0].message)
    changed, tasks = {effect.id for effect in effects if isinstance(effect, UpdateRun)}, _tasks(effects, state)
    return asked, [_to_clear(run, tasks[id_], _graph(run, asked, state)) for id_, run in state.runs.items() if id_ in changed]


def _check_tasks(asked: ClearRequested, state: State) -> None:
    """Raises RequestError for a task that none of the runs has."""
    graphs = [*state.graphs.values(), *([state.dag.graph] if asked.newest and state.dag else ())]
    known = {node.task.task_id: None for graph in graphs for node in graph.nodes}
    if state.runs and (unknown := [task_id for task_id in asked.task_ids if task_id not in known]):
        raise RequestError(f"DAG {asked.dag_id!r} has no task {unknown[0]!r} in these runs; its tasks are {', '.join(known)}")


def _tasks(effects: Sequence[Effect], state: State) -> Mapping[int, set[str]]:
    """By run, the tasks that run again, and those of the newest version that are new to it."""
    found: dict[int, set[str]] = defaultdict(set)
    for effect in effects:
        match effect:
            case TaskMoved(dag_run_id, event):
                found[dag_run_id].add(event.task_id)
            case InsertTask(dag_run_id=dag_run_id, task_id=task_id):
                found[dag_run_id].add(task_id)
            case KillSubmissions(dag_run_id, int(index)):
                graph = state.graphs[state.runs[dag_run_id].version_id]
                found[dag_run_id].add(graph.node(index).task.task_id)
            case _:
                pass
    return found


def _graph(run: RunView, asked: ClearRequested, state: State) -> Graph:
    return state.dag.graph if asked.newest and state.dag else state.graphs[run.version_id]


def _to_clear(run: RunView, tasks: set[str], graph: Graph) -> ToClear:
    in_order = [node.task.task_id for node in graph.nodes if node.task.task_id in tasks]
    return ToClear(run.run_id, run.logical_date, run.state, in_order)


def _sum(found: Sequence[ToClear]) -> str:
    tasks = sum(len(run.tasks) for run in found)
    return f"{tasks} {'task' if tasks == 1 else 'tasks'} of {len(found)} {'run' if len(found) == 1 else 'runs'}"


def _cells(run: ToClear) -> tuple[output.Cell, ...]:
    return run.run_id, run.logical_date, run.state, ", ".join(run.tasks)
