"""Runs of a backfill ended, or left their end states, without a notification: a daemon of a former version knows no backfills."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import NotifyBackfill
from tidegate.schemas.message import BackfillLagging, Message
from tidegate.schemas.queries import backfill_dates, backfills, dags
from tidegate.schemas.queries.backfill_dates import LaggingRun
from tidegate.schemas.queries.db import Db


class State(msgspec.Struct, frozen=True):
    """The runs of these backfills without a notification, under the locks of their DAGs."""

    now: datetime
    runs: tuple[LaggingRun, ...] = ()


async def load(db: Db, messages: Sequence[Message[BackfillLagging]]) -> State:
    found = await backfills.dag_ids(db, {message.body.backfill_id for message in messages})
    await dags.lock_unread(db, {dag_id for ids in found.values() for dag_id in (ids.dag_id, *ids.stage_dag_ids)})
    await backfills.lock(db, found)
    return State(db.now, await backfill_dates.lagging_runs(db, {message.body.backfill_id for message in messages}))


def decide(_messages: Sequence[Message[BackfillLagging]], state: State) -> Iterator[Effect]:
    for run in state.runs:
        yield NotifyBackfill(run.backfill_id, run.dag_run_id, run.reopened, state.now)
