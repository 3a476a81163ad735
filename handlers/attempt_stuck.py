"""Kill attempts that were not submitted in time. Their tasks are queued again, or fail after `MAX_REQUEUES` (`attempt_ends`)."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers.runs.rows import NOT_SUBMITTED
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptStuck, Message
from tidegate.schemas.queries import runs, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import SubmissionState
from tidegate.schemas.view import SubmissionView

UNSUBMITTED = frozenset({SubmissionState.INTENT, SubmissionState.SUBMITTING})


class State(msgspec.Struct, frozen=True):
    """The attempts, under the locks of their runs."""

    submissions: Sequence[SubmissionView]


async def load(db: Db, messages: Sequence[Message[AttemptStuck]]) -> State:
    ids: list[UUID] = [message.body.submission_id for message in messages]
    await runs.lock_of_attempts(db, ids)
    return State(list((await submissions.read(db, ids)).values()))


def decide(_messages: Sequence[Message[AttemptStuck]], state: State) -> Iterator[Effect]:
    for attempt in state.submissions:
        if attempt.state in UNSUBMITTED and attempt.kill_reason is None:
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, NOT_SUBMITTED)
