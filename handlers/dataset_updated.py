"""Datasets were updated: start a run of every DAG whose condition holds now.

The clock decides later about a DAG whose row another session holds.
"""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedDags, lock_free_dags
from tidegate.handlers.scheduling.next_runs import schedule_each
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import DeferDag
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import DatasetUpdated


async def load(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> LockedDags:
    recorded = await datasets.record(db, messages)
    return await lock_free_dags(db, recorded.dag_ids, ReadReason(just_arrived=recorded.arrived))


def decide(_messages: Sequence[Message[DatasetUpdated]], state: LockedDags) -> Iterator[Effect]:
    yield from (DeferDag(dag_id, state.now) for dag_id in state.skipped)
    yield from schedule_each(state.dags, state.now)
