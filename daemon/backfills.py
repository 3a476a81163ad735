"""What users do with backfills: the calls that the command line, the API and the pages share.

Each checks that the user may change the DAG. A refusal is recorded in the audit log.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.conf import checked_conf
from tidegate.daemon.permissions import can_edit
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.request import apply_request
from tidegate.daemon.settings import Settings
from tidegate.handlers import backfill_requested
from tidegate.handlers.backfills.cascade import why_not_again
from tidegate.handlers.backfills.dates import PlannedDate, is_replay, next_ticks, plan_dates
from tidegate.schemas.backfill import BackfillSpec, BackfillView, Consumer, Limits, Outlets
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged, BackfillRequested, Message
from tidegate.schemas.queries import backfills, pools
from tidegate.schemas.queries.backfill_pages import BackfillRow, list_backfills
from tidegate.schemas.queries.db import Db


async def request_of(database: Database, spec: BackfillSpec, id_: int = 0) -> BackfillRequested:
    """The message that creates the backfill, once its conf is checked. Raises RequestError."""
    params = await checked_conf(database, spec.dag_id, spec.dag_params)
    return BackfillRequested(backfill_id=id_, params=params, **msgspec.structs.asdict(spec))


async def create(database: Database, settings: Settings, user: str, spec: BackfillSpec) -> BackfillRow:
    """Create a backfill; its runs start in the background. Raises RequestError with the reason of a refusal."""
    for dag_id in await database.run(_dags_of, spec):
        await _check_right(database, settings, user, dag_id, f"create a backfill of DAG {dag_id!r}")
    id_ = await database.run(backfills.reserve)
    await apply_request(database, await request_of(database, spec, id_))
    return await find(database, id_)


async def _dags_of(db: Db, spec: BackfillSpec) -> list[str]:
    """The DAGs whose runs a backfill runs."""
    edges = await backfills.edges(db, spec.dag_id) if spec.outlets is Outlets.CASCADE else []
    return [spec.dag_id, *sorted({consumer for _, consumer in edges} - {spec.dag_id})]


async def act(
    database: Database, settings: Settings, user: str, id_: int, action: BackfillAction, *, kills: bool = False
) -> BackfillRow:
    """Pause, resume, cancel, retry or delete a backfill. Raises RequestError with the reason of a refusal."""
    await _check_right(database, settings, user, (await find(database, id_)).dag_id, f"{action} backfill {id_}")
    await apply_request(database, BackfillActed(backfill_id=id_, action=action, kills=kills))
    return await find(database, id_, deleted=True)


async def change(
    database: Database, settings: Settings, user: str, id_: int, limits: dict[str, Any], end_date: datetime | None = None
) -> BackfillRow:
    """Change limits, fields of `Limits` with their new values, or extend a backfill. Raises RequestError for a refusal."""
    await _check_right(database, settings, user, (await find(database, id_)).dag_id, f"change backfill {id_}")
    await apply_request(database, BackfillChanged(backfill_id=id_, changes=_checked(limits), end_date=end_date))
    return await find(database, id_)


class PreviewDate(msgspec.Struct, frozen=True):
    """A date, and what a backfill would do with it: `create` a run, `rerun` the existing one, or `skip` it for a reason."""

    logical_date: datetime
    action: str
    run_id: str | None
    reason: str


class Preview(msgspec.Struct, frozen=True):
    """The first dates of a backfill that is not created yet. `more`: others follow."""

    dates: list[PreviewDate]
    more: bool


async def preview(db: Db, request: BackfillRequested, limit: int) -> Preview:
    """What the backfill would do with its first dates, by its own decisions; nothing is changed. Raises RequestError."""
    messages = [Message(body=request, at=db.now)]
    state = await backfill_requested.load(db, messages)
    for effect in backfill_requested.decide(messages, state):
        if isinstance(effect, RejectMessage):
            raise RequestError(effect.message)
    if state.dag is None:
        return Preview([], more=False)
    backfill = backfill_requested.view_of(request, state.dag, state.now)
    if is_replay(backfill, state.dag.graph):
        return _replay(backfill, await backfills.replayed(db, backfill, limit + 1), limit)
    ticks = next_ticks(backfill, state.dag.graph, limit + 1)
    existing = await backfills.runs_of_dates(db, request.dag_id, [tick.logical_date for tick in ticks])
    planned = plan_dates(backfill, ticks[:limit], existing, limit)
    return Preview(list(map(_preview, planned)), more=len(ticks) > limit)


def _replay(backfill: BackfillView, found: Sequence[Consumer], limit: int) -> Preview:
    reasons = [why_not_again(backfill, each) for each in found[:limit]]
    dates = [
        PreviewDate(each.order_at, "skip" if reason else "rerun", each.run.run_id, reason or "")
        for each, reason in zip(found, reasons, strict=False)
    ]
    return Preview(dates, more=len(found) > limit)


def _preview(date: PlannedDate) -> PreviewDate:
    run_id = date.existing.run_id if date.existing else None
    action = "skip" if date.reason else "rerun" if date.existing else "create"
    return PreviewDate(date.tick.logical_date, action, run_id, date.reason or "")


async def find(database: Database, id_: int, *, deleted: bool = False) -> BackfillRow:
    """Raises RequestError for an unknown backfill, and a deleted one unless these are asked for."""
    return await database.run(found, id_, deleted=deleted)


async def found(db: Db, id_: int, *, deleted: bool = False) -> BackfillRow:
    """As `find`, in a transaction."""
    rows = await list_backfills(db, backfill_id=id_, deleted=deleted) if 0 < id_ < 2**63 else []
    if not rows:
        raise RequestError(f"there is no backfill {id_}; `tidegate backfills list` shows all")
    return rows[0]


def _checked(limits: dict[str, Any]) -> dict[str, Any]:
    try:
        msgspec.convert({**msgspec.structs.asdict(Limits()), **limits}, Limits)
    except msgspec.ValidationError as error:
        raise RequestError(f"a limit is out of range: {error}") from error
    return limits


async def _check_right(database: Database, settings: Settings, user: str, dag_id: str, what: str) -> None:
    if not can_edit(settings, user, dag_id):
        await database.run(pools.record, user, "was refused", f"DAG {dag_id}", {"request": what})
        raise RequestError(f"{user} may not {what}; TIDEGATE_EDITORS names the users that may")
