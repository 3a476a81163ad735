"""What a request to clear tasks would clear, and which runs consumed what these tasks wrote."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidegate.daemon.read_model.lookup import find_dag, find_run, names
from tidegate.handlers.clear_requested import State, decide, load, unknown_task
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.effect.task import InsertTask, TaskMoved
from tidegate.schemas.error import RequestError
from tidegate.schemas.graph import Graph, parsed_label
from tidegate.schemas.message import ClearOptions, ClearRequested, Message
from tidegate.schemas.notice import instance_name as label_of
from tidegate.schemas.queries.consumers import ConsumerRun, Written, consumers_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import KillCause, RunStateName, TaskState
from tidegate.schemas.text import counted
from tidegate.schemas.view import RunView

MOST_CONSUMERS = 1_000
"""The most runs of consumers that are read, at about."""


class ClearedRun(msgspec.Struct, frozen=True):
    """A run, its state before, and its tasks that run again; single instances of a mapped task by name, such as `load[3]`.

    `consumers` are the runs that consumed what these tasks wrote, and after them the runs that consumed from those, and so on; of
    all cleared runs together about the first 1,000. `backfill_id`: the backfill that runs them again.
    """

    run_id: str
    logical_date: datetime | None
    state: RunStateName
    tasks: Sequence[str]
    consumers: Sequence[ConsumerRun] = ()
    backfill_id: int | None = None


class Clearing(NamedTuple):
    """The request with the id of `latest`, and the runs that it clears."""

    request: ClearRequested
    runs: list[ClearedRun]


async def preview(db: Db, request: ClearRequested) -> Clearing:
    """What a request would clear, by the handler's own decision; nothing is changed."""
    if request.run_id is None:
        await find_dag(db, request.dag_id)
    else:
        request = msgspec.structs.replace(request, run_id=(await find_run(db, request.dag_id, request.run_id)).run_id)
    messages = [Message(body=request, at=db.now)]
    state = await load(db, messages)
    _check_tasks(request, state)
    effects = list(decide(messages, state))
    if refused := [effect for effect in effects if isinstance(effect, RejectMessage)]:
        raise RequestError(refused[0].message, reason=refused[0].reason)
    changed, tasks = {effect.id for effect in effects if isinstance(effect, UpdateRun)}, _tasks(effects, state)
    cleared = [_cleared_run(run, tasks[id_], _graph(run, request, state)) for id_, run in state.runs.items() if id_ in changed]
    consumers = await read_consumers(db, request.dag_id, cleared)
    return Clearing(request, [msgspec.structs.replace(run, consumers=consumers[run.run_id]) for run in cleared])


async def read_consumers(db: Db, dag_id: str, cleared: Sequence[ClearedRun]) -> Mapping[str, list[ConsumerRun]]:
    """By cleared run, the runs that consumed what its tasks wrote, generation by generation; each run once."""
    found: dict[str, list[ConsumerRun]] = {run.run_id: [] for run in cleared}
    roots = {(dag_id, run.run_id): run.run_id for run in cleared}
    written: set[Written] = {(dag_id, run.run_id, parsed_label(task)[0]) for run in cleared for task in run.tasks}
    while written and (left := MOST_CONSUMERS - len(roots) + len(cleared)) > 0:
        generation = list[ConsumerRun]()
        for consumer in await consumers_of(db, written, left):
            if (consumer.dag_id, consumer.run_id) not in roots:
                roots[consumer.dag_id, consumer.run_id] = roots[consumer.producer_dag_id, consumer.producer_run_id]
                found[roots[consumer.dag_id, consumer.run_id]].append(consumer)
                generation.append(consumer)
        written = {(consumer.dag_id, consumer.run_id, None) for consumer in generation}
    return found


def _check_tasks(request: ClearRequested, state: State) -> None:
    """Raises RequestError for a task id that no run has."""
    graphs = [*state.graphs.values(), *([state.dag.graph] if request.newest_version and state.dag else ())]
    known = {node.task.task_id: None for graph in graphs for node in graph.nodes}
    if state.dag and (unknown := unknown_task(request, state.dag.graph, state)) is not None:
        raise RequestError(f"DAG {request.dag_id!r} has no task {unknown!r} in these runs; its tasks are {names(known)}")


def _tasks(effects: Sequence[Effect], state: State) -> Mapping[int, set[str]]:
    """By run id, the tasks that run again, and new ones of the newest version."""
    tasks: dict[int, set[str]] = defaultdict(set)
    for effect in effects:
        match effect:
            case TaskMoved(dag_run_id, event) if event.state != TaskState.REMOVED:
                tasks[dag_run_id].add(event.label)
            case InsertTask(dag_run_id=dag_run_id, task_id=task_id):
                tasks[dag_run_id].add(task_id)
            case KillSubmissions(dag_run_id, int(index), _, KillCause.CLEARED):
                tasks[dag_run_id].add(state.graphs[state.runs[dag_run_id].version_id].label(index))
            case _:
                pass
    return tasks


def _graph(run: RunView, request: ClearRequested, state: State) -> Graph:
    return state.dag.graph if request.newest_version and state.dag else state.graphs[run.version_id]


def _cleared_run(run: RunView, tasks: set[str], graph: Graph) -> ClearedRun:
    """A mapped task of which single instances run again is left out: they stand for it."""
    of_task = defaultdict[str, list[int]](list)
    for task_id, element in map(parsed_label, tasks):
        if element is not None:
            of_task[task_id].append(element)
    ids = [node.task.task_id for node in graph.nodes]
    in_order = [[label_of(id_, element) for element in sorted(of_task[id_])] or [id_][: id_ in tasks] for id_ in ids]
    return ClearedRun(run.run_id, run.logical_date, run.state, [name for names_ in in_order for name in names_])


def cleared_text(runs: Sequence[ClearedRun]) -> str:
    """`3 tasks of 1 run`."""
    tasks = sum(len(run.tasks) for run in runs)
    return f"{counted(tasks, 'task', 'tasks')} of {counted(len(runs), 'run', 'runs')}"


def consumed_text(runs: Sequence[ClearedRun]) -> str:
    """How many runs consumed what the cleared tasks wrote, and whether they run again; empty without any."""
    consumers = [consumer for run in runs for consumer in run.consumers]
    if not consumers:
        return ""
    dags = counted(len({consumer.dag_id for consumer in consumers}), "DAG", "DAGs")
    most = "At least " if len(consumers) >= MOST_CONSUMERS else ""
    return f"{most}{counted(len(consumers), 'run', 'runs')} of {dags} consumed what these tasks wrote, or what followed from it."


def consequence(options: ClearOptions) -> str:
    """What becomes of the runs that consumed what is cleared."""
    if options.cascade:
        return "They run again after it, in order. Those of a paused DAG wait until it is unpaused."
    if options.announce:
        return "They stay as they are; new events of these datasets start new runs, which wait for their other inputs."
    return "They stay as they are, with the data that they have read."
