"""Attempts gave no sign of life for too long: whoever ran them is taken for dead, and the tasks retried or failed."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers import attempt_ends
from tidegate.handlers.attempt_ends import end_of, ended_already, moved_on, take
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import LeaseLapsed, Message
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import TaskFinished


class State(msgspec.Struct, frozen=True):
    """The attempts under their runs' locks, and which of them are silent still."""

    found: attempt_ends.State
    silent: frozenset[UUID]


async def load(db: Db, messages: Sequence[Message[LeaseLapsed]]) -> State:
    found = await attempt_ends.load(db, [_lost(message.body) for message in messages])
    limit = max(message.body.silent_s for message in messages)
    return State(found, frozenset(await submissions.silent(db, limit, among=found.submissions.keys())))


def decide(messages: Sequence[Message[LeaseLapsed]], state: State) -> Iterator[Effect]:
    lapsed = {message.body.submission_id: message.body for message in messages}
    lost = [_lost(lapsed[submission_id]) for submission_id in lapsed if submission_id in state.silent]
    open_ = [end for end in lost if not ended_already(end, state.found)]
    yield from (end_of(end, state.found.now) for end in open_ if moved_on(end, state.found))
    yield from take([end for end in open_ if not moved_on(end, state.found)], state.found)


def _lost(lapsed: LeaseLapsed) -> TaskFinished:
    reason = f"no sign of life for {lapsed.silent_s:g} s"
    return TaskFinished(submission_id=lapsed.submission_id, outcome="lost", reason=reason)
