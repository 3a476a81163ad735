"""Backends took attempts: their tasks run. One that ended in the meantime is left as it is."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tidegate.handlers.advance import Advance, Move
from tidegate.handlers.start import tasks_moved
from tidegate.schemas.effect import AcceptSubmission, Effect, UpdateRun, UpdateTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, SubmissionAccepted
from tidegate.schemas.queries import dags, runs, submissions, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import SubmissionState, TaskState
from tidegate.schemas.view import RunView, SubmissionView, TaskView


class State(msgspec.Struct, frozen=True):
    """The attempts with their tasks, under the locks of their runs."""

    now: datetime
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], TaskView]


async def load(db: Db, messages: Sequence[Message[SubmissionAccepted]]) -> State:
    ids = [message.body.submission_id for message in messages]
    locked = await runs.lock(db, {place.dag_run_id for place in (await submissions.find(db, ids)).values()})
    attempts = await submissions.read(db, ids)
    graphs = await dags.graphs(db, {run.version_id for run in locked.values()})
    instances = await tasks.instances(db, {(a.dag_run_id, a.task_index) for a in attempts.values()})
    return State(db.now, locked, graphs, attempts, instances)


def decide(messages: Sequence[Message[SubmissionAccepted]], state: State) -> Iterator[Effect]:
    started: dict[int, list[TaskView]] = defaultdict(list)
    for accepted in {message.body.submission_id: message.body for message in messages}.values():
        attempt = state.submissions[accepted.submission_id]
        if attempt.state is not SubmissionState.SUBMITTING:
            continue
        yield AcceptSubmission(accepted.submission_id, accepted.handle, state.now)
        started[attempt.dag_run_id].append(state.tasks[attempt.dag_run_id, attempt.task_index])
    for dag_run_id, of_run in started.items():
        yield from _start(state.runs[dag_run_id], of_run, state)


def _start(run: RunView, started: Sequence[TaskView], state: State) -> Iterator[Effect]:
    for task in started:
        yield running(task, state.now)
    moves = tuple(Move(task.task_index, TaskState.RUNNING, task.try_number) for task in started)
    yield from renumbered(run, moves, state.graphs[run.version_id], state.now)


def running(task: TaskView, now: datetime) -> UpdateTask:
    """The task instance runs from now on."""
    return UpdateTask(
        task.dag_run_id,
        task.task_index,
        TaskState.RUNNING,
        task.try_number,
        task.upstream_success,
        task.upstream_failed,
        None,
        now,
        None,
    )


def renumbered(run: RunView, moves: tuple[Move, ...], graph: Graph, now: datetime) -> Iterator[Effect]:
    """Publish moves of a run that itself stays in its state."""
    yield UpdateRun(
        run.id,
        run.state,
        run.state_seq,
        run.task_seq + len(moves),
        run.unfinished,
        run.failed_leaves,
        None,
        None,
    )
    yield from tasks_moved(run, graph, Advance((), moves, 0, 0), now)
