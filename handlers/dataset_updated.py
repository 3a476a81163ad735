"""Datasets were updated: start a run of every DAG whose condition holds now."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedDags, lock_dags
from tidegate.handlers.scheduling.next_runs import schedule_each
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import DatasetUpdated


async def load(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> LockedDags:
    recorded = await datasets.record(db, messages)
    return await lock_dags(db, recorded.dag_ids, ReadReason(just_arrived=recorded.arrived))


def decide(_messages: Sequence[Message[DatasetUpdated]], state: LockedDags) -> Iterator[Effect]:
    yield from schedule_each(state.dags, state.now)
