"""A user pauses, resumes, cancels, retries or deletes a backfill. Its runs follow in the background."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.rejections import NOT_POSSIBLE, no_such_backfill, not_in_state, overlapping
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import DeleteBackfillDates, RecordAudit, RetryDates, UpdateBackfill
from tidegate.schemas.message import BackfillActed, BackfillAction, Message
from tidegate.schemas.queries import backfills, dags
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BACKFILL_STARTS, BackfillState

DONE = {
    BackfillAction.PAUSE: "paused",
    BackfillAction.RESUME: "resumed",
    BackfillAction.CANCEL: "cancelled",
    BackfillAction.RETRY: "retried",
    BackfillAction.DELETE: "deleted",
}


class State(msgspec.Struct, frozen=True):
    """The backfill, locked under the lock of its DAG; None if there is none. `others` of its DAG have not ended."""

    now: datetime
    backfill: BackfillView | None
    others: tuple[BackfillView, ...] = ()


async def load(db: Db, messages: Sequence[Message[BackfillActed]]) -> State:
    (request,) = (message.body for message in messages)
    for dag_id, stage_dag_ids in (await backfills.places(db, [request.backfill_id])).values():
        for locked_dag_id in sorted({dag_id, *stage_dag_ids}):
            await dags.lock_unread(db, locked_dag_id)
        locked = await backfills.lock(db, [request.backfill_id])
        return State(db.now, locked.get(request.backfill_id), await backfills.active_of(db, dag_id))
    return State(db.now, None)


def decide(messages: Sequence[Message[BackfillActed]], state: State) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    backfill = state.backfill
    if backfill is None or backfill.deleted:
        yield no_such_backfill(request.backfill_id)
        return
    after = _after(backfill, request)
    if isinstance(after, RejectMessage):
        yield after
        return
    if request.action is BackfillAction.RETRY:
        if rejected := next(overlapping(backfill, state.others), None):
            yield rejected
            return
        yield RetryDates(backfill.id)
    if request.action is BackfillAction.DELETE:
        yield DeleteBackfillDates(backfill.id)
    yield UpdateBackfill(after, None if after.state in BACKFILL_ENDED else state.now)
    details = {"kills": True} if request.kills else {}
    yield RecordAudit(f"{DONE[request.action]} a backfill", f"backfill {backfill.id}", {"dag_id": backfill.dag_id, **details})


def _after(backfill: BackfillView, request: BackfillActed) -> BackfillView | RejectMessage:
    """The backfill after the action, or why it is not possible."""
    match request.action:
        case BackfillAction.PAUSE if backfill.state in BACKFILL_STARTS:
            return msgspec.structs.replace(backfill, state=BackfillState.PAUSED)
        case BackfillAction.RESUME if backfill.state is BackfillState.PAUSED:
            state = BackfillState.RUNNING if backfill.dates else BackfillState.PLANNED
            return msgspec.structs.replace(backfill, state=state)
        case BackfillAction.CANCEL if backfill.state not in BACKFILL_ENDED:
            return _cancelled(backfill, kills=request.kills)
        case BackfillAction.RETRY if backfill.state is not BackfillState.CANCELLING:
            return _retried(backfill)
        case BackfillAction.DELETE if backfill.state in BACKFILL_ENDED:
            return msgspec.structs.replace(backfill, deleted=True)
        case _:
            return not_in_state(backfill, DONE[request.action])


def _cancelled(backfill: BackfillView, *, kills: bool) -> BackfillView | RejectMessage:
    """A second cancel is only possible to end the running runs, too."""
    if backfill.state is BackfillState.CANCELLING and (backfill.kills or not kills):
        return not_in_state(backfill, DONE[BackfillAction.CANCEL])
    reason = f"backfill {backfill.id} was cancelled"
    return msgspec.structs.replace(
        backfill, state=BackfillState.CANCELLING, stop_reason=reason, kills=kills, was_cancelled=True, is_planned=True
    )


def _retried(backfill: BackfillView) -> BackfillView | RejectMessage:
    """One that stopped after failures goes on with its other dates, too."""
    if not backfill.failed:
        return RejectMessage(0, NOT_POSSIBLE, f"backfill {backfill.id} has no failed date")
    if backfill.stage:
        reason = f"backfill {backfill.id} has begun its cascade: consumers of retried dates might have run again already"
        return RejectMessage(0, NOT_POSSIBLE, f"{reason}; create another one with --reprocess failed --outlets cascade")
    state = backfill.state if backfill.state is BackfillState.PAUSED else BackfillState.RUNNING
    return msgspec.structs.replace(backfill, state=state, failed=0, stop_reason="", kills=False, run_end_date=None)
