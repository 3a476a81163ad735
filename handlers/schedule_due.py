"""DAGs are due: start timed runs and queued runs whose time has come, and expire events."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedDags, lock_dags
from tidegate.handlers.scheduling.next_runs import schedule_each
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import Message, ScheduleDue
from tidegate.schemas.queries.db import Db


async def load(db: Db, messages: Sequence[Message[ScheduleDue]]) -> LockedDags:
    return await lock_dags(db, {message.body.dag_id for message in messages})


def decide(_messages: Sequence[Message[ScheduleDue]], state: LockedDags) -> Iterator[Effect]:
    yield from schedule_each(state.dags, state.now)
