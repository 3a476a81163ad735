"""Kill attempts that were not submitted in time. Their tasks are queued again, or fail after `MAX_REQUEUES` (`attempt_ends`)."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedAttempts, lock_attempts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptStuck, Message
from tidegate.schemas.state import KillCause, SubmissionState

UNSUBMITTED = frozenset({SubmissionState.INTENT, SubmissionState.SUBMITTING})


load = lock_attempts


def decide(messages: Sequence[Message[AttemptStuck]], state: LockedAttempts) -> Iterator[Effect]:
    limits = {message.body.submission_id: message.body.queued_s for message in messages}
    for id_, attempt in state.submissions.items():
        if attempt.state in UNSUBMITTED and attempt.kill_reason is None:
            reason = not_submitted(attempt.try_number, limits[id_])
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, reason, KillCause.NOT_SUBMITTED)


def not_submitted(try_number: int, queued_s: float) -> str:
    return f"attempt {try_number} was not submitted within {queued_s:g} s"
