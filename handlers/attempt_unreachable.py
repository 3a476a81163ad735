"""End attempts that no daemon has recorded as accepted, on hosts without a daemon: their tasks are queued again, for other hosts.

Such a task has not begun, so the attempt is none that has failed; after `MAX_REQUEUES` it counts as one (`attempt_ends`).
"""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers import attempt_ends
from tidegate.handlers.attempt_ends import end_open
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptUnreachable, Message
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import KillCause
from tidegate.schemas.wire.event import TaskFinished


class State(msgspec.Struct, frozen=True):
    """The attempts under the locks of their runs; `unreachable` ones still are. None is of a locked run."""

    ends: attempt_ends.State
    unreachable: frozenset[UUID]


async def load(db: Db, messages: Sequence[Message[AttemptUnreachable]]) -> State:
    ends = await attempt_ends.load(db, [_lost(message.body.submission_id) for message in messages])
    body, free = messages[0].body, ends.submissions.keys() - ends.locked_out
    return State(ends, frozenset(await submissions.unreachable(db, body.absent_s, body.shared, among=free)))


def decide(messages: Sequence[Message[AttemptUnreachable]], state: State) -> Iterator[Effect]:
    """An attempt is killed first, which counts it, and has ended when it is found again. A kill of before keeps its meaning."""
    found = [id_ for id_ in dict.fromkeys(message.body.submission_id for message in messages) if id_ in state.unreachable]
    attempts = [state.ends.submissions[id_] for id_ in found]
    for attempt in (attempt for attempt in attempts if attempt.kill_reason is None):
        reason = f"host {attempt.host} lost its daemon before attempt {attempt.try_number} began"
        yield KillSubmissions(attempt.dag_run_id, attempt.task_index, reason, KillCause.NOT_SUBMITTED)
    ends = [_lost(attempt.submission_id) for attempt in attempts if attempt.kill_reason is not None]
    yield from end_open(ends, state.ends)


def _lost(submission_id: UUID) -> TaskFinished:
    return TaskFinished(submission_id=submission_id, outcome="killed")
