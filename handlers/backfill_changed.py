"""A user changes the limits of a backfill, or extends it. Its waiting tasks follow at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.rejections import no_such_backfill, unchangeable
from tidegate.handlers.backfills.stop import MAX_RUNS_PER_REQUEST, limited
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.audit import OF_DAG, RecordAudit, object_name
from tidegate.schemas.effect.backfill import RetryDates, SetBackfillLimits, UpdateBackfill
from tidegate.schemas.message import BackfillChanged, Message, request_of
from tidegate.schemas.queries import backfills, dags, pools, runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState


class State(msgspec.Struct, frozen=True):
    """The backfill and its unfinished runs, locked under the lock of its DAG. `others` of its DAG have not ended."""

    now: datetime
    backfill: BackfillView | None
    others: tuple[BackfillView, ...] = ()
    has_pool: bool = True


async def load(db: Db, messages: Sequence[Message[BackfillChanged]]) -> State:
    request = request_of(messages)
    ids = (await backfills.dag_ids(db, [request.backfill_id])).get(request.backfill_id)
    if ids is None:
        return State(db.now, None)
    await dags.lock_unread(db, {ids.dag_id, *ids.stage_dag_ids})
    backfill = (await backfills.lock(db, [request.backfill_id])).get(request.backfill_id)
    await runs.lock_unread(db, await backfills.active_runs(db, {request.backfill_id: True}, MAX_RUNS_PER_REQUEST))
    has_pool = await pools.lock_if_named(db, request.changes.get("pool", backfill.pool if backfill else None))
    return State(db.now, backfill, await backfills.active_of(db, ids.dag_id), has_pool)


def decide(messages: Sequence[Message[BackfillChanged]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    backfill = state.backfill
    if backfill is None or backfill.deleted:
        yield no_such_backfill(request.backfill_id)
        return
    if rejected := next(unchangeable(backfill, request, state.others, has_pool=state.has_pool), None):
        yield rejected
        return
    after = limited(backfill, request.changes)
    if backfill.stop_reason and not after.stop_reason:
        yield RetryDates(backfill.id, failed=False)
    if request.end_date:
        after = _extended(after, request.end_date, state.now)
    yield UpdateBackfill(after, None if after.state in BACKFILL_ENDED else state.now)
    yield SetBackfillLimits(after)
    details = {**request.changes, **({"end_date": request.end_date} if request.end_date else {})}
    yield RecordAudit("changed a backfill", object_name(OF_DAG, dag_id=after.dag_id, backfill_id=after.id), details)


def _extended(backfill: BackfillView, end: datetime, now: datetime) -> BackfillView:
    """More dates, up to now; an ended backfill goes on."""
    state = BackfillState.RUNNING if backfill.state in BACKFILL_ENDED else backfill.state
    return msgspec.structs.replace(backfill, state=state, end_date=end, horizon=now, is_planned=False, run_end_date=None)
