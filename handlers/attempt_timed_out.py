"""Kill attempts that run longer than `execution_timeout`. They count as failed once they have ended."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedAttempts, lock_attempts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptTimedOut, Message
from tidegate.schemas.state import KillCause, SubmissionState
from tidegate.schemas.view import SubmissionView

load = lock_attempts


def decide(_messages: Sequence[Message[AttemptTimedOut]], state: LockedAttempts) -> Iterator[Effect]:
    for attempt in state.submissions.values():
        if attempt.state is SubmissionState.ACCEPTED and attempt.kill_reason is None:
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, _reason(state, attempt), KillCause.TIMED_OUT)


def _reason(state: LockedAttempts, attempt: SubmissionView) -> str:
    """Without a limit where tasks of the run were cleared onto a version that has none for this one, which is at work."""
    limit_s = state.spec_of(attempt).execution_timeout_s
    return f"it took longer than its execution_timeout{f', {limit_s:g} s' if limit_s else ''}"
