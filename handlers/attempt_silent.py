"""Attempts gave no sign of life for too long: whoever ran them is taken for dead, and the tasks retried or failed."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers import attempt_ends
from tidegate.handlers.attempt_ends import already_ended, end_attempts, superseded
from tidegate.handlers.runs.rows import end_submission
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import AttemptSilent, Message
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import TaskFinished


class State(msgspec.Struct, frozen=True):
    """The attempts under their runs' locks, and which of them are silent still."""

    found: attempt_ends.State
    silent: frozenset[UUID]


async def load(db: Db, messages: Sequence[Message[AttemptSilent]]) -> State:
    found = await attempt_ends.load(db, [_lost(message.body) for message in messages])
    limit = max(message.body.silent_s for message in messages)
    return State(found, frozenset(await submissions.silent(db, limit, among=found.submissions.keys())))


def decide(messages: Sequence[Message[AttemptSilent]], state: State) -> Iterator[Effect]:
    lapsed = {message.body.submission_id: message.body for message in messages}
    lost = [_lost(lapsed[submission_id]) for submission_id in lapsed if submission_id in state.silent]
    open_ = [end for end in lost if not already_ended(end, state.found)]
    yield from (end_submission(end, state.found.now) for end in open_ if superseded(end, state.found))
    yield from end_attempts([end for end in open_ if not superseded(end, state.found)], state.found)


def _lost(lapsed: AttemptSilent) -> TaskFinished:
    reason = f"no sign of life for {lapsed.silent_s:g} s"
    return TaskFinished(submission_id=lapsed.submission_id, outcome="lost", reason=reason)
