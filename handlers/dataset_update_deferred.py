"""A dataset was updated, and a decision about a consumer fails or needs a locked row: record the event for the clock.

The clock visits each consumer alone.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import DeferDag
from tidegate.schemas.message import DatasetUpdateDeferred, Message
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db


class State(msgspec.Struct, frozen=True):
    """The DAGs that consume the recorded events."""

    now: datetime
    dag_ids: Collection[str]


async def load(db: Db, messages: Sequence[Message[DatasetUpdateDeferred]]) -> State:
    """Record the events in the ledger, and queue them for their consumers."""
    updates = [Message(body=message.body.update, at=message.at, id=message.id) for message in messages]
    return State(db.now, (await datasets.record(db, updates)).dag_ids)


def decide(_messages: Sequence[Message[DatasetUpdateDeferred]], state: State) -> Iterator[Effect]:
    yield from (DeferDag(dag_id, state.now) for dag_id in state.dag_ids)
