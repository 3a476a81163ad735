"""Backends accepted attempts: their tasks are running, except the ones that have ended or were deleted meanwhile."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from tidegate.handlers.load import LockedAttempts, lock_attempts
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import AcceptSubmission
from tidegate.schemas.effect.task import MoveTask
from tidegate.schemas.graph import is_removed
from tidegate.schemas.message import Message, SubmissionAccepted
from tidegate.schemas.state import SubmissionState, TaskState
from tidegate.schemas.view import Instance, RunView, SubmissionView

load = lock_attempts


def decide(messages: Sequence[Message[SubmissionAccepted]], state: LockedAttempts) -> Iterator[Effect]:
    started: dict[int, list[Instance]] = defaultdict(list)
    for accepted in {message.body.submission_id: message.body for message in messages}.values():
        attempt = state.submissions.get(accepted.submission_id)
        if attempt is None or attempt.state is not SubmissionState.SUBMITTING:
            continue
        yield AcceptSubmission(accepted.submission_id, accepted.handle, state.now, _times_out_at(attempt, state))
        task = state.tasks[attempt.dag_run_id, attempt.task_index]
        if task.state is TaskState.QUEUED and task.try_number == attempt.try_number:
            started[attempt.dag_run_id].append(task)
    for dag_run_id, of_run in started.items():
        yield from _start(state.runs[dag_run_id], of_run, state)


def _times_out_at(attempt: SubmissionView, state: LockedAttempts) -> datetime | None:
    timeout_s = None if is_removed(attempt.task_index) else state.spec_of(attempt).execution_timeout_s
    return state.now + timedelta(seconds=timeout_s) if timeout_s else None


def _start(run: RunView, started: Sequence[Instance], state: LockedAttempts) -> Iterator[Effect]:
    for task in started:
        yield MoveTask(run.id, task.index, TaskState.RUNNING, task.try_number, state.now)
    moves = [Move(task.index, TaskState.RUNNING, task.try_number) for task in started]
    yield from change_run(run, run, state.graphs[run.version_id], moves, state.now)
