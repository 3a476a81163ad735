"""Ends of attempts waited for a row that another session held: apply those whose rows are free, in the order of their arrival."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.handlers import task_finished
from tidegate.handlers.attempt_ends import State as EndsState
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.submission import DeferEnd, TakeDeferredEnd
from tidegate.schemas.message import EndDeferred, Message
from tidegate.schemas.queries import inbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import TaskFinished


class State(msgspec.Struct, frozen=True):
    """The deferred ends, by their id, and what they may affect."""

    deferred: Mapping[int, Message[TaskFinished]]
    ends: EndsState


async def load(db: Db, messages: Sequence[Message[EndDeferred]]) -> State:
    deferred = await inbox.deferred_ends(db, [message.body.deferred_id for message in messages])
    return State(deferred, await task_finished.load(db, list(deferred.values())))


def decide(_messages: Sequence[Message[EndDeferred]], state: State) -> Iterator[Effect]:
    """The end of an attempt that was deleted meanwhile changes nothing. One of a held DAG waits for the release."""
    for effect in task_finished.decide(list(state.deferred.values()), state.ends):
        if not isinstance(effect, RejectMessage | DeferEnd):
            yield effect
    for id_, message in state.deferred.items():
        if message.body.submission_id not in state.ends.locked_out | state.ends.held.keys():
            yield TakeDeferredEnd(id_)
