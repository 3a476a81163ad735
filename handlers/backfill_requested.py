"""A user requests a backfill: record it. Its dates are planned later, as there is room for their runs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.cascade import stages_of
from tidegate.handlers.backfills.rejections import no_cascade, no_such_pool, overlapping, uncreatable
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.backfill import BackfillSpec, BackfillView, Outlets, default_active_runs
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.audit import OF_DAG, RecordAudit, object_name
from tidegate.schemas.effect.backfill import InsertBackfill
from tidegate.schemas.message import BackfillRequested, Message, request_of
from tidegate.schemas.queries import backfills, dags, pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import LockedDag


class State(msgspec.Struct, frozen=True):
    """The DAG, locked; None when it does not exist. `others` are its backfills that have not ended.

    `edges`, for a cascade: each producer with each of its consumers; `refusing` of these allow no backfills.
    """

    now: datetime
    dag: LockedDag | None
    others: tuple[BackfillView, ...] = ()
    has_pool: bool = True
    edges: Sequence[tuple[str, str]] = ()
    refusing: tuple[str, ...] = ()


async def load(db: Db, messages: Sequence[Message[BackfillRequested]]) -> State:
    request = request_of(messages)
    locked = await dags.lock(db, [request.dag_id])
    if not locked:
        return State(db.now, None)
    has_pool = await pools.lock_if_named(db, request.pool)
    edges = await backfills.edges(db, request.dag_id) if request.outlets is Outlets.CASCADE else ()
    others, refusing = await backfills.active_of(db, request.dag_id), await backfills.refusing(db, {to for _, to in edges})
    return State(db.now, locked[request.dag_id], others, has_pool, edges, refusing)


def decide(messages: Sequence[Message[BackfillRequested]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    backfill = view_of(request, state.dag, state.now)
    rejected = next(_rejections(request, backfill, state.dag, state), None)
    if rejected is not None:
        yield rejected
    else:
        yield from _insert(msgspec.structs.replace(backfill, stages=stages_of(backfill.dag_id, state.edges)))


def view_of(request: BackfillRequested, dag: LockedDag, now: datetime) -> BackfillView:
    """The requested backfill, before any of its dates is planned."""
    asked = {name: getattr(request, name) for name in BackfillSpec.__struct_fields__}
    asked["max_active_runs"] = request.max_active_runs or default_active_runs(dag.graph.max_active_runs)
    return BackfillView(**asked, id=request.backfill_id, version_id=dag.graph.version_id, horizon=now)


def _rejections(request: BackfillRequested, backfill: BackfillView, dag: LockedDag, state: State) -> Iterator[RejectMessage]:
    yield from uncreatable(request, backfill, dag)
    if not state.has_pool:
        yield no_such_pool(request.pool)
    yield from overlapping(backfill, state.others)
    yield from no_cascade(backfill, state.edges, state.refusing)


def _insert(backfill: BackfillView) -> Iterator[Effect]:
    yield InsertBackfill(backfill)
    details = {"start_date": backfill.start_date, "end_date": backfill.end_date, "reprocess": backfill.reprocess}
    yield RecordAudit("created a backfill", object_name(OF_DAG, dag_id=backfill.dag_id, backfill_id=backfill.id), details)
