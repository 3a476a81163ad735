"""A user requests a backfill: record it. Its dates are planned later, as there is room for their runs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.rejections import NOT_POSSIBLE, overlapping, unplannable
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.backfill import BackfillSpec, BackfillView
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import InsertBackfill, RecordAudit
from tidegate.schemas.message import BackfillRequested, Message
from tidegate.schemas.queries import backfills, dags, pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import LockedDag

PARAMS_CHANGED = "params_changed"
NO_SUCH_POOL = "no_such_pool"


class State(msgspec.Struct, frozen=True):
    """The DAG, locked; None when it does not exist. `others` are its backfills that have not ended."""

    now: datetime
    dag: LockedDag | None
    others: tuple[BackfillView, ...] = ()
    has_pool: bool = True


async def load(db: Db, messages: Sequence[Message[BackfillRequested]]) -> State:
    (request,) = (message.body for message in messages)
    locked = await dags.lock(db, [request.dag_id])
    if not locked:
        return State(db.now, None)
    pool = request.pool
    has_pool = pool is None or (await pools.read(db, pool, 0)).exists
    return State(db.now, locked[request.dag_id], await backfills.active_of(db, request.dag_id), has_pool)


def decide(messages: Sequence[Message[BackfillRequested]], state: State) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    backfill = view_of(request, state.dag, state.now)
    rejected = next(_rejections(request, backfill, state.dag, state), None)
    yield from (rejected,) if rejected else _insert(backfill)


def view_of(request: BackfillRequested, dag: LockedDag, now: datetime) -> BackfillView:
    """The requested backfill, before any of its dates is planned."""
    asked = {name: getattr(request, name) for name in BackfillSpec.__struct_fields__}
    return BackfillView(**asked, id=request.backfill_id, version_id=dag.graph.version_id, horizon=now)


def _rejections(request: BackfillRequested, backfill: BackfillView, dag: LockedDag, state: State) -> Iterator[RejectMessage]:
    name = f"DAG {request.dag_id!r}"
    if dag.is_stale:
        yield RejectMessage(0, NOT_POSSIBLE, f"{name} is in no DAG file: its runs would never start")
    if dag.graph.params != request.params:
        reason = f"the parameters of {name} changed after the conf was checked; create the backfill again"
        yield RejectMessage(0, PARAMS_CHANGED, reason)
    if not state.has_pool:
        reason = f"there is no pool {request.pool!r}; `tidegate pools set` makes it"
        yield RejectMessage(0, NO_SUCH_POOL, reason)
    yield from unplannable(backfill, dag.graph)
    yield from overlapping(backfill, state.others)


def _insert(backfill: BackfillView) -> Iterator[Effect]:
    yield InsertBackfill(backfill)
    details = {"dag_id": backfill.dag_id, "start_date": backfill.start_date, "end_date": backfill.end_date}
    yield RecordAudit("created a backfill", f"backfill {backfill.id}", {**details, "reprocess": backfill.reprocess})
