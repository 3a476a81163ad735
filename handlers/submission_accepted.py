"""Backends accepted attempts: their tasks are running, except the ones that have ended meanwhile."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import AcceptSubmission
from tidegate.schemas.effect.task import MoveTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, SubmissionAccepted
from tidegate.schemas.queries import runs, submissions, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import SubmissionState, TaskState
from tidegate.schemas.view import Instance, RunView, SubmissionView


class State(msgspec.Struct, frozen=True):
    """The attempts with their tasks, under the locks of their runs."""

    now: datetime
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]
    tasks: Mapping[tuple[int, int], Instance]


async def load(db: Db, messages: Sequence[Message[SubmissionAccepted]]) -> State:
    ids = [message.body.submission_id for message in messages]
    locked = await runs.lock_of_attempts(db, ids)
    graphs = await versions.graphs(db, {run.version_id for run in locked.values()})
    attempts, instances = await submissions.read_with_tasks(db, ids)
    return State(db.now, locked, graphs, attempts, instances)


def decide(messages: Sequence[Message[SubmissionAccepted]], state: State) -> Iterator[Effect]:
    started: dict[int, list[Instance]] = defaultdict(list)
    for accepted in {message.body.submission_id: message.body for message in messages}.values():
        attempt = state.submissions[accepted.submission_id]
        if attempt.state is not SubmissionState.SUBMITTING:
            continue
        yield AcceptSubmission(accepted.submission_id, accepted.handle, state.now, _times_out_at(attempt, state))
        task = state.tasks[attempt.dag_run_id, attempt.task_index]
        if task.state is TaskState.QUEUED and task.try_number == attempt.try_number:
            started[attempt.dag_run_id].append(task)
    for dag_run_id, of_run in started.items():
        yield from _start(state.runs[dag_run_id], of_run, state)


def _times_out_at(attempt: SubmissionView, state: State) -> datetime | None:
    graph = state.graphs[state.runs[attempt.dag_run_id].version_id]
    timeout_s = graph.node(attempt.task_index).task.execution_timeout_s
    return state.now + timedelta(seconds=timeout_s) if timeout_s else None


def _start(run: RunView, started: Sequence[Instance], state: State) -> Iterator[Effect]:
    for task in started:
        yield MoveTask(run.id, task.index, TaskState.RUNNING, task.try_number, state.now)
    moves = [Move(task.index, TaskState.RUNNING, task.try_number) for task in started]
    yield from change_run(run, run, state.graphs[run.version_id], moves, state.now)
