"""Fail attempts without a heartbeat for `runner_silent_s`: they are lost, and their tasks are retried or fail."""

from collections.abc import Iterator, Sequence
from uuid import UUID

import msgspec

from tidegate.handlers import attempt_ends
from tidegate.handlers.attempt_ends import end_open
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import AttemptSilent, Message
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import TaskFinished


class State(msgspec.Struct, frozen=True):
    """The attempts under the locks of their runs; `silent` ones still have no heartbeat. None is of a locked run."""

    ends: attempt_ends.State
    silent: frozenset[UUID]


async def load(db: Db, messages: Sequence[Message[AttemptSilent]]) -> State:
    ends = await attempt_ends.load(db, [_lost(message.body) for message in messages])
    limit = max(message.body.silent_s for message in messages)
    free = ends.submissions.keys() - ends.locked_out
    return State(ends, frozenset(await submissions.silent(db, limit, among=free)))


def decide(messages: Sequence[Message[AttemptSilent]], state: State) -> Iterator[Effect]:
    ends = state.ends
    by_attempt = {message.body.submission_id: message.body for message in messages}
    silent = {id_: message for id_, message in by_attempt.items() if id_ in state.silent}
    yield from end_open([_lost(message, ends.submissions[id_].host) for id_, message in silent.items()], ends)


def _lost(silent: AttemptSilent, host: str | None = None) -> TaskFinished:
    silence = f"no heartbeat for {silent.silent_s:g} s"
    reason = f"host {host} is lost: {silence}" if host else silence
    return TaskFinished(submission_id=silent.submission_id, outcome="lost", reason=reason)
