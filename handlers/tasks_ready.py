"""Tasks wait for a slot: admit those that fit, oldest run first, and record the intent to submit each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from tidegate.handlers.advance import Move
from tidegate.handlers.submission_accepted import renumbered
from tidegate.schemas.dag import BACKENDS, kind_of
from tidegate.schemas.effect import Effect, InsertSubmission, UpdateTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, TasksReady
from tidegate.schemas.queries import dags, runs, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import RunView, TaskView

READY = frozenset({TaskState.SCHEDULED, TaskState.UP_FOR_RETRY})


class State(msgspec.Struct, frozen=True):
    """The candidates in order, under the locks of their runs, and the free slots of the locked pool."""

    now: datetime
    free: int
    tasks: tuple[TaskView, ...]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]


async def load(db: Db, messages: Sequence[Message[TasksReady]]) -> State:
    (ready,) = (message.body for message in messages)
    candidates = await tasks.ready(db, ready.pool, ready.limit)
    locked = await runs.lock(db, {dag_run_id for dag_run_id, _ in candidates})
    free = await tasks.free_slots(db, ready.pool, len(candidates)) if candidates else 0
    instances = await tasks.instances(db, candidates[:free])
    graphs = await dags.graphs(db, {run.version_id for run in locked.values()})
    return State(db.now, free, tuple(instances[key] for key in candidates[:free]), locked, graphs)


def decide(_messages: Sequence[Message[TasksReady]], state: State) -> Iterator[Effect]:
    admitted: dict[int, list[TaskView]] = defaultdict(list)
    for task in state.tasks[: state.free]:
        if task.state in READY and state.runs[task.dag_run_id].state is RunState.RUNNING:
            admitted[task.dag_run_id].append(task)
    for dag_run_id, of_run in admitted.items():
        yield from _admit(state.runs[dag_run_id], of_run, state)


def submission_id(run: RunView, task_id: str, try_number: int) -> UUID:
    """The stamp of an attempt: the same however often it is computed, and no other attempt's."""
    return uuid5(NAMESPACE_OID, f"tidegate/{run.id}/{run.dag_id}/{run.run_id}/{task_id}/{try_number}")


def _admit(run: RunView, admitted: Sequence[TaskView], state: State) -> Iterator[Effect]:
    graph = state.graphs[run.version_id]
    for task in admitted:
        spec = graph.nodes[task.task_index].task
        stamp = submission_id(run, spec.task_id, task.try_number + 1)
        yield _queued(task)
        yield InsertSubmission(stamp, run.id, task.task_index, task.try_number + 1, BACKENDS[kind_of(spec)])
    moves = tuple(Move(task.task_index, TaskState.QUEUED, task.try_number + 1) for task in admitted)
    yield from renumbered(run, moves, graph, state.now)


def _queued(task: TaskView) -> UpdateTask:
    return UpdateTask(
        task.dag_run_id,
        task.task_index,
        TaskState.QUEUED,
        task.try_number + 1,
        task.upstream_success,
        task.upstream_failed,
        None,
        None,
        None,
    )
