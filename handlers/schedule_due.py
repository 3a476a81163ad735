"""The clock visits DAGs: start timed runs that are due and queued runs whose `run_after` has come, and expire events."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import lock_dags
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import Message, ScheduleDue
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import DagView


class State(msgspec.Struct, frozen=True):
    """The DAGs, locked."""

    now: datetime
    dags: tuple[DagView, ...]


async def load(db: Db, messages: Sequence[Message[ScheduleDue]]) -> State:
    found = await lock_dags(db, {message.body.dag_id for message in messages})
    return State(db.now, found)


def decide(_messages: Sequence[Message[ScheduleDue]], state: State) -> Iterator[Effect]:
    for dag in state.dags:
        yield from schedule_next_runs(dag, state.now)
