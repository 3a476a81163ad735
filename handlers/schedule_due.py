"""DAGs are due: start timed runs and queued runs whose time has come, and expire events."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedDags, read_dags
from tidegate.handlers.scheduling.next_runs import schedule_each
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import Message, ScheduleDue
from tidegate.schemas.queries import dags
from tidegate.schemas.queries.db import Db


async def load(db: Db, messages: Sequence[Message[ScheduleDue]]) -> LockedDags:
    """A DAG whose row another session holds is skipped: it stays due, and the clock comes back."""
    dag_ids = {message.body.dag_id for message in messages}
    locked = await dags.lock(db, dag_ids, skips=True)
    if deferred := {message.body.dag_id for message in messages if message.body.is_deferred} - db.skipped:
        await dags.take_deferred(db, deferred)
    return LockedDags(db.now, await read_dags(db, locked))


def decide(_messages: Sequence[Message[ScheduleDue]], state: LockedDags) -> Iterator[Effect]:
    yield from schedule_each(state.dags, state.now)
