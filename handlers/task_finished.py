"""Attempts of tasks ended: each end is taken once; late, repeated and foreign ones change nothing and are recorded."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from tidegate.handlers import attempt_ends
from tidegate.handlers.attempt_ends import State, already_ended, end_attempts, superseded
from tidegate.handlers.runs.rows import end_submission
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.submission import IgnoreFinish
from tidegate.schemas.effect.task import LookAgain
from tidegate.schemas.message import Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.event import EventId, Rejection, TaskFinished

REPEATED = "the attempt had already ended"


async def load(db: Db, messages: Sequence[Message[TaskFinished]]) -> State:
    return await attempt_ends.load(db, [message.body for message in messages])


def decide(messages: Sequence[Message[TaskFinished]], state: State) -> Iterator[Effect]:
    taken: list[TaskFinished] = []
    seen: set[UUID] = set()
    for index, message in enumerate(messages):
        ended = message.body
        if ended.submission_id not in state.submissions:
            yield RejectMessage(index, Rejection.UNKNOWN_ATTEMPT, f"no attempt was submitted as {ended.submission_id}")
        elif why := REPEATED if ended.submission_id in seen else already_ended(ended, state):
            yield _ignore(message, why)
        elif why := superseded(ended, state):
            yield end_submission(ended, state.now)
            yield _ignore(message, why)
            yield from _awaited(ended, state)
        else:
            taken.append(ended)
        seen.add(ended.submission_id)
    yield from end_attempts(taken, state)


def _awaited(ended: TaskFinished, state: State) -> Iterator[LookAgain]:
    """A task that was cleared meanwhile may have waited for its attempt to end."""
    attempt = state.submissions[ended.submission_id]
    if state.tasks[attempt.dag_run_id, attempt.task_index].state is TaskState.SCHEDULED:
        yield LookAgain(state.graphs[state.runs[attempt.dag_run_id].version_id].node(attempt.task_index).task.pool)


def _ignore(message: Message[TaskFinished], why: str) -> IgnoreFinish:
    id_ = message.id or EventId("", "")
    return IgnoreFinish(message.body.submission_id, id_.source, id_.id, message.body.outcome, why)
