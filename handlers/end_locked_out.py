"""An attempt has ended, and another session has a row that the end changes: the end is stored, and the clock applies it later."""

from collections.abc import Iterator, Sequence

from tidegate.handlers import task_finished
from tidegate.handlers.attempt_ends import State
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import EndLockedOut, Message
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.db import Db


async def load(db: Db, messages: Sequence[Message[EndLockedOut]]) -> State:
    """The attempts, without any lock."""
    attempts, instances = await submissions.read_with_tasks(db, [message.body.end.submission_id for message in messages])
    return State(db.now, (), {}, {}, attempts, instances, locked_out=frozenset(attempts))


def decide(messages: Sequence[Message[EndLockedOut]], state: State) -> Iterator[Effect]:
    """An end that does not prove to be that of its attempt is rejected now."""
    ends = [Message(body=message.body.end, at=message.at, id=message.id) for message in messages]
    yield from task_finished.decide(ends, state)
