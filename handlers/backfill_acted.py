"""A user pauses, resumes, cancels, retries or deletes a backfill. Its runs follow in the background."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.backfills.move_version import move_to_version
from tidegate.handlers.backfills.rejections import no_such_backfill, unactable, unretriable
from tidegate.handlers.backfills.rerun import LockedRun
from tidegate.handlers.backfills.stop import MAX_RUNS_PER_REQUEST, cancelled, retried
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.audit import OF_DAG, RecordAudit, object_name
from tidegate.schemas.effect.backfill import DeleteBackfillDates, PinVersion, RetryDates, UpdateBackfill
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, Message, request_of
from tidegate.schemas.queries import backfills, dags, pools, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState

DONE = {
    BackfillAction.PAUSE: "paused",
    BackfillAction.RESUME: "resumed",
    BackfillAction.CANCEL: "cancelled",
    BackfillAction.RETRY: "retried",
    BackfillAction.DELETE: "deleted",
}


class State(msgspec.Struct, frozen=True):
    """The backfill, locked under the locks of its DAGs; None if there is none. `others` of its DAG have not ended.

    `newest` is the newest version of the DAG, for a retry with it; `unended` are the runs of the DAG, locked, that get it, too.
    """

    now: datetime
    backfill: BackfillView | None
    others: tuple[BackfillView, ...] = ()
    newest: Graph | None = None
    unended: tuple[LockedRun, ...] = ()
    has_pool: bool = True


async def load(db: Db, messages: Sequence[Message[BackfillActed]]) -> State:
    request = request_of(messages)
    ids = (await backfills.dag_ids(db, [request.backfill_id])).get(request.backfill_id)
    if ids is None:
        return State(db.now, None)
    locked_dags = await dags.lock_unread(db, {ids.dag_id, *ids.stage_dag_ids})
    backfill = (await backfills.lock(db, [request.backfill_id])).get(request.backfill_id)
    version_ids = {locked_dags[ids.dag_id].version_id} if request.newest_version and backfill else set()
    graphs = await versions.graphs(db, version_ids)
    others = await backfills.active_of(db, ids.dag_id)
    unended = await _unended(db, ids.dag_id, request.backfill_id) if graphs else ()
    has_pool = await pools.lock_if_named(db, backfill.pool if backfill else None)
    return State(db.now, backfill, others, next(iter(graphs.values()), None), unended, has_pool)


async def _unended(db: Db, dag_id: str, backfill_id: int) -> tuple[LockedRun, ...]:
    """The runs of the backfill that have not ended, of this DAG: consumers in a cascade have versions of their own.

    A version that they leave may be unreadable: the names of its tasks are enough.
    """
    locked = await runs.lock_unread(db, await backfills.active_runs(db, {backfill_id: True}, MAX_RUNS_PER_REQUEST))
    found = [run for run in locked.values() if run.dag_id == dag_id]
    graphs, instances = await versions.names_only(db, found), await tasks.of_runs(db, [run.id for run in found])
    return tuple(LockedRun(run, graphs[run.version_id], instances.get(run.id, {})) for run in found)


def decide(messages: Sequence[Message[BackfillActed]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    backfill = state.backfill
    if backfill is None or backfill.deleted:
        yield no_such_backfill(request.backfill_id)
        return
    rejections = [*unactable(backfill, request, DONE[request.action])]
    if request.action is BackfillAction.RETRY:
        rejections += unretriable(backfill, request, state.others, state.newest, has_pool=state.has_pool)
    if rejections:
        yield rejections[0]
        return
    after = _after(backfill, request, state.newest)
    yield from _dates(after, request)
    if state.newest is not None:
        yield from (effect for run in state.unended for effect in move_to_version(after, run, state.newest, state.now))
    yield UpdateBackfill(after, None if after.state in BACKFILL_ENDED else state.now)
    name = object_name(OF_DAG, dag_id=after.dag_id, backfill_id=after.id)
    yield RecordAudit(f"{DONE[request.action]} a backfill", name, _details(backfill, after, request))


def _details(before: BackfillView, after: BackfillView, request: BackfillActed) -> dict[str, object]:
    kills = {"kills": True} if request.kills else {}
    versions = {"version_id": after.version_id, "previous_version_id": before.version_id} if request.newest_version else {}
    return {**kills, **versions}


def _dates(after: BackfillView, request: BackfillActed) -> Iterator[Effect]:
    """What the action means for the dates of the backfill, and for its version."""
    if request.newest_version:
        yield PinVersion(after.id, after.version_id)
    if request.action is BackfillAction.RETRY:
        yield RetryDates(after.id)
    if request.action is BackfillAction.DELETE:
        yield DeleteBackfillDates(after.id)


def _after(backfill: BackfillView, request: BackfillActed, newest: Graph | None) -> BackfillView:
    """The backfill after a possible action."""
    match request.action:
        case BackfillAction.PAUSE:
            return msgspec.structs.replace(backfill, state=BackfillState.PAUSED)
        case BackfillAction.RESUME:
            state = BackfillState.RUNNING if backfill.dates else BackfillState.PLANNED
            return msgspec.structs.replace(backfill, state=state)
        case BackfillAction.CANCEL:
            return cancelled(backfill, kills=request.kills)
        case BackfillAction.RETRY:
            return retried(backfill, newest.version_id if newest else backfill.version_id)
        case _:  # delete
            return msgspec.structs.replace(backfill, deleted=True)
