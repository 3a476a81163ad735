"""The clock has come to DAGs: start the runs that their timetables plan, and queued ones whose time was still to come."""

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
    """The DAGs, locked, each with all that waits for it."""

    now: datetime
    dags: tuple[DagView, ...]


async def load(db: Db, messages: Sequence[Message[ScheduleDue]]) -> State:
    found = await lock_dags(db, {message.body.dag_id for message in messages})
    return State(db.now, found)


def decide(_messages: Sequence[Message[ScheduleDue]], state: State) -> Iterator[Effect]:
    for dag in state.dags:
        yield from schedule_next_runs(dag, state.now)
