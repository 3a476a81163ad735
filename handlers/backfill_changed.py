"""A user changes the limits of a backfill, or extends it. Its waiting tasks follow at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.rejections import NOT_POSSIBLE, no_such_backfill, not_in_state, overlapping
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import RecordAudit, SetBackfillLimits, UpdateBackfill
from tidegate.schemas.message import BackfillChanged, Message
from tidegate.schemas.queries import backfills, dags, pools, runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState
from tidegate.schemas.timetable.text import utc

MOST_RUNS = 100_000


class State(msgspec.Struct, frozen=True):
    """The backfill and its unfinished runs, locked under the lock of its DAG. `others` of its DAG have not ended."""

    now: datetime
    backfill: BackfillView | None
    others: tuple[BackfillView, ...] = ()
    has_pool: bool = True


async def load(db: Db, messages: Sequence[Message[BackfillChanged]]) -> State:
    (request,) = (message.body for message in messages)
    for dag_id, stage_dag_ids in (await backfills.places(db, [request.backfill_id])).values():
        for locked_dag_id in sorted({dag_id, *stage_dag_ids}):
            await dags.lock_unread(db, locked_dag_id)
        locked = await backfills.lock(db, [request.backfill_id])
        await runs.lock_unread(db, await backfills.active_runs(db, request.backfill_id, MOST_RUNS, running=True))
        pool = request.changes.get("pool")
        has_pool = pool is None or (await pools.read(db, pool, 0)).exists
        return State(db.now, locked.get(request.backfill_id), await backfills.active_of(db, dag_id), has_pool)
    return State(db.now, None)


def decide(messages: Sequence[Message[BackfillChanged]], state: State) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    backfill = state.backfill
    if backfill is None or backfill.deleted:
        yield no_such_backfill(request.backfill_id)
        return
    after = _extended(backfill, request.end_date, state.now) if request.end_date else backfill
    if isinstance(after, RejectMessage):
        yield after
        return
    if rejected := next(_rejections(request, backfill, after, state), None):
        yield rejected
        return
    after = _going_on(msgspec.structs.replace(after, **request.changes))
    yield UpdateBackfill(after, state.now)
    yield SetBackfillLimits(after)
    details = {**request.changes, **({"end_date": request.end_date} if request.end_date else {})}
    yield RecordAudit("changed a backfill", f"backfill {after.id}", {"dag_id": after.dag_id, **details})


def _rejections(request: BackfillChanged, backfill: BackfillView, after: BackfillView, state: State) -> Iterator[RejectMessage]:
    if after.state in BACKFILL_ENDED or backfill.state is BackfillState.CANCELLING:
        yield not_in_state(backfill, "changed")
    if not state.has_pool:
        yield RejectMessage(0, NOT_POSSIBLE, f"there is no pool {request.changes['pool']!r}; `tidegate pools set` makes it")
    if request.end_date:
        yield from overlapping(after, state.others)


def _going_on(backfill: BackfillView) -> BackfillView:
    """One that stopped after failures goes on if it may have more."""
    has_stopped = backfill.stop_reason and backfill.state is not BackfillState.CANCELLING
    is_reached = 0 < backfill.max_failed_runs <= backfill.failed
    return msgspec.structs.replace(backfill, stop_reason="") if has_stopped and not is_reached else backfill


def _extended(backfill: BackfillView, end: datetime, now: datetime) -> BackfillView | RejectMessage:
    """More dates, up to now; an ended backfill goes on."""
    if backfill.is_reverse or backfill.logical_dates is not None:
        kind = "runs in reverse order" if backfill.is_reverse else "has a list of dates"
        return RejectMessage(0, NOT_POSSIBLE, f"backfill {backfill.id} {kind}: create another one for more dates")
    if end <= backfill.end_date:
        return RejectMessage(0, NOT_POSSIBLE, f"backfill {backfill.id} ends at {utc(backfill.end_date)} already")
    if backfill.stage or (backfill.stages and backfill.state in BACKFILL_ENDED):
        return RejectMessage(0, NOT_POSSIBLE, f"backfill {backfill.id} has begun its cascade: create another one for more dates")
    if backfill.stop_reason and backfill.state is not BackfillState.CANCELLED:
        reason = f"backfill {backfill.id} stopped: {backfill.stop_reason}"
        return RejectMessage(0, NOT_POSSIBLE, f"{reason}; retry it first, or create another one for more dates")
    if backfill.state is BackfillState.CANCELLED:
        return not_in_state(backfill, "extended")
    state = BackfillState.RUNNING if backfill.state in BACKFILL_ENDED else backfill.state
    return msgspec.structs.replace(backfill, state=state, end_date=end, horizon=now, is_planned=False, run_end_date=None)
