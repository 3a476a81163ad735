"""Kill attempts that were not submitted in time. Their tasks are queued again, or fail after `MAX_REQUEUES` (`attempt_ends`)."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedAttempts, lock_attempts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptStuck, Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import KillCause, SubmissionState

NOT_SUBMITTED = "it was not submitted in time"
UNSUBMITTED = frozenset({SubmissionState.INTENT, SubmissionState.SUBMITTING})


async def load(db: Db, messages: Sequence[Message[AttemptStuck]]) -> LockedAttempts:
    return await lock_attempts(db, [message.body.submission_id for message in messages])


def decide(_messages: Sequence[Message[AttemptStuck]], state: LockedAttempts) -> Iterator[Effect]:
    for attempt in state.submissions.values():
        if attempt.state in UNSUBMITTED and attempt.kill_reason is None:
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, NOT_SUBMITTED, KillCause.NOT_SUBMITTED)
