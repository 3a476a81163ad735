"""Kill attempts that run longer than `execution_timeout`. They count as failed once they have ended."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedAttempts, lock_attempts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptTimedOut, Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import KillCause, SubmissionState


async def load(db: Db, messages: Sequence[Message[AttemptTimedOut]]) -> LockedAttempts:
    return await lock_attempts(db, [message.body.submission_id for message in messages])


def decide(_messages: Sequence[Message[AttemptTimedOut]], state: LockedAttempts) -> Iterator[Effect]:
    for attempt in state.submissions.values():
        if attempt.state is SubmissionState.ACCEPTED and attempt.kill_reason is None:
            limit_s = state.spec_of(attempt).execution_timeout_s or 0
            reason = f"it took longer than its execution_timeout, {limit_s:g} s"
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, reason, KillCause.TIMED_OUT)
