"""Tasks wait for slots of a pool: admit the ones that fit, and record the intent to submit each.

Queue order: weight, across all DAGs; then older runs first, then the order of tasks in their DAG. A task that does not fit is
passed over and blocks no other. Against starvation, every fourth admission is the task that has waited longest, once it has
waited for more than `fair_after_s`. If it lacks only slots, the free slots are kept for it. If it lacks the share of its
backfill, the share is kept for it: tasks of the backfill that have waited less are passed over.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.load import lock_admission
from tidegate.handlers.admission.select import select_tasks, submission_id
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.cluster import cluster_name
from tidegate.schemas.dag import BACKENDS, kind_of
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import InsertSubmission
from tidegate.schemas.effect.task import AdmitAgain, CountAdmitted, MoveTask
from tidegate.schemas.error import Faults
from tidegate.schemas.message import Message, TasksReady, request_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import RunView, WaitingTask


async def load(db: Db, messages: Sequence[Message[TasksReady]]) -> AdmissionState:
    ready = request_of(messages)
    return await lock_admission(db, ready)


async def first_dag(db: Db, ready: TasksReady) -> str | None:
    """The DAG of the task that is admitted first; None if none is."""
    state = await lock_admission(db, ready)
    return next((state.runs[task.dag_run_id].dag_id for task in select_tasks(Capacity(state))), None)


def decide(_messages: Sequence[Message[TasksReady]], state: AdmissionState) -> Iterator[Effect]:
    by_run: dict[int, list[WaitingTask]] = defaultdict(list)
    capacity = Capacity(state)
    for task in select_tasks(capacity):
        by_run[task.dag_run_id].append(task)
    with Faults() as faults:
        for dag_run_id, admitted in by_run.items():
            with faults.of(state.runs[dag_run_id].dag_id):
                yield from _admit(state.runs[dag_run_id], admitted, state)
    if by_run and state.starving:
        yield CountAdmitted(state.pool.name, sum(map(len, by_run.values())))
    if by_run and (state.has_more or capacity.has_released) and capacity.is_left:
        yield AdmitAgain()


def _admit(run: RunView, admitted: Sequence[WaitingTask], state: AdmissionState) -> Iterator[Effect]:
    graph = state.graphs[run.version_id]
    for task in admitted:
        spec = graph.node(task.task_index).task
        id_ = submission_id(state.installation, run, graph.label(task.task_index), task.try_number + 1)
        yield MoveTask(run.id, task.task_index, TaskState.QUEUED, task.try_number + 1)
        backend, cluster = BACKENDS[kind_of(spec)], cluster_name(spec) or None
        yield InsertSubmission(id_, run.id, task.task_index, task.try_number + 1, backend, cluster)
    moves = [Move(task.task_index, TaskState.QUEUED, task.try_number + 1) for task in admitted]
    after = msgspec.structs.replace(run, active_tasks=run.active_tasks + len(admitted))
    yield from change_run(run, after, graph, moves, state.now)
