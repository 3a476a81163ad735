"""What users do with backfills: the calls that the command line, the API and the pages share.

Each call that changes something checks the right of the caller for each of its DAGs, and records a refusal in the audit log. All
raise RequestError for what the user has to change; its `reason` is a constant of `tidegate.handlers.backfills.rejections`,
NO_SUCH_DAG, FORBIDDEN, or "invalid". They raise UnavailableError when Postgres does not answer, and DagFaultError when a version
of the DAG cannot be read. None prints.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from anyio.to_thread import run_sync

from tidegate.daemon.conf import checked_conf
from tidegate.daemon.permissions import Caller
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.backfill import read_backfill
from tidegate.daemon.read_model.backfill_effects import ChangedBackfill, read_changed
from tidegate.daemon.read_model.backfill_preview import Preview, PreviewAction, PreviewDate, most_counted, preview_of
from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED
from tidegate.daemon.request import apply_request, check_rights
from tidegate.daemon.settings import Settings
from tidegate.handlers import backfill_requested
from tidegate.handlers.backfill_acted import DONE
from tidegate.handlers.backfills.cascade import why_not_again
from tidegate.handlers.backfills.dates import PlannedDate, is_replay, next_ticks, plan_dates
from tidegate.schemas.backfill import (
    FIRST_IGNORES,
    MAX_DESCRIPTION,
    MAX_LISTED_DATES,
    RANGES,
    BackfillSpec,
    BackfillView,
    Consumer,
    Limits,
    Outlets,
    SetLimits,
)
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.effect.audit import OF_DAG, object_name
from tidegate.schemas.error import RequestError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged, BackfillRequested, Message
from tidegate.schemas.queries import backfills
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.queries.db import Db

CONF = "dag_params"
"""The field of a backfill that is the conf of its runs."""

LONGEST_INTERVAL = timedelta(days=366)
"""A run is due that long after its logical date at most, in a timetable of intervals up to a year."""

Action = Callable[[Database, Settings, Caller, int], Awaitable[BackfillRow]]
"""An action of a user on a backfill, given its number."""


def checked(spec: BackfillSpec) -> BackfillSpec:
    """The spec, if its dates, limits and description are possible for any DAG."""
    if spec.end_date < spec.start_date:
        raise RequestError("the last date is before the first one; swap them")
    if len(spec.logical_dates or ()) > MAX_LISTED_DATES:
        raise RequestError(f"a backfill has at most {MAX_LISTED_DATES} listed dates; give a range, or create several")
    if len(spec.description) > MAX_DESCRIPTION or "\0" in spec.description:
        raise RequestError(f"the description is too long, or has a NUL character; write at most {MAX_DESCRIPTION} characters")
    checked_limits({name: getattr(spec, name) for name in Limits.__struct_fields__}, Limits)
    return spec


async def create(database: Database, settings: Settings, caller: Caller, spec: BackfillSpec) -> BackfillRow:
    """Create a backfill, and return it; its runs start in the background."""
    checked(spec)
    dags = await database.run(dags_of, spec)
    about = object_name(OF_DAG, dag_id=spec.dag_id)
    await check_rights(database, settings, caller, dags, about, "created a backfill")
    id_ = await database.run(backfills.reserve)
    await apply_request(database, await _request_of(database, spec, id_))
    return await get(database, id_)


async def dags_of(db: Db, spec: BackfillSpec) -> list[str]:
    """The DAGs whose runs a backfill runs."""
    return await backfills.dags_of_cascade(db, spec.dag_id) if spec.outlets is Outlets.CASCADE else [spec.dag_id]


async def preview(database: Database, spec: BackfillSpec, limit: int) -> Preview:
    """The effects that a backfill would have on its first `limit` dates, by its own decisions. Changes nothing.

    A thread computes the dates, which takes seconds for some timetables.
    """
    return await database.run(_preview, await _request_of(database, checked(spec)), limit)


async def get(database: Database, id_: int, *, deleted: bool = False) -> BackfillRow:
    """The backfill. A deleted one is not found unless `deleted` is given."""
    return await database.run(read_backfill, id_, deleted=deleted)


async def pause(database: Database, settings: Settings, caller: Caller, id_: int) -> BackfillRow:
    """Start no more runs of the backfill. Its running runs go on."""
    return await _act(database, settings, caller, BackfillActed(backfill_id=id_, action=BackfillAction.PAUSE))


async def resume(database: Database, settings: Settings, caller: Caller, id_: int) -> BackfillRow:
    """Resume a paused backfill."""
    return await _act(database, settings, caller, BackfillActed(backfill_id=id_, action=BackfillAction.RESUME))


async def cancel(database: Database, settings: Settings, caller: Caller, id_: int, *, kills: bool = False) -> BackfillRow:
    """Fail the queued runs of the backfill, with `kills` also its running ones, and plan no more dates.

    It needs no readable version of the DAG.
    """
    return await _act(database, settings, caller, BackfillActed(backfill_id=id_, action=BackfillAction.CANCEL, kills=kills))


async def retry(database: Database, settings: Settings, caller: Caller, id_: int, *, newest_version: bool = False) -> BackfillRow:
    """Run the failed and cancelled dates of the backfill again, and plan the others.

    They have its version, or the newest one, which it has from then on.
    """
    request = BackfillActed(backfill_id=id_, action=BackfillAction.RETRY, newest_version=newest_version)
    if newest_version:
        row = await get(database, id_)
        request = msgspec.structs.replace(request, params=await checked_conf(database, row.dag_id, row.dag_params, CONF))
    return await _act(database, settings, caller, request)


async def delete(database: Database, settings: Settings, caller: Caller, id_: int) -> BackfillRow:
    """Delete an ended backfill with its list of dates. Its runs stay."""
    return await _act(database, settings, caller, BackfillActed(backfill_id=id_, action=BackfillAction.DELETE))


async def change(
    database: Database,
    settings: Settings,
    caller: Caller,
    id_: int,
    limits: Mapping[str, Any],
    end_date: datetime | None = None,
    *,
    expected: str | None = None,
) -> ChangedBackfill:
    """Change limits, fields of `Limits` with their new values, and with `end_date` add dates at the end of the backfill.

    `expected`: only if this is the version of its limits (`limits_version`). Raises StaleError otherwise.
    """
    before = await get(database, id_)
    await check_rights(database, settings, caller, before.dags, _name(before), "changed a backfill")
    changes = checked_limits(limits, SetLimits)
    await apply_request(database, BackfillChanged(backfill_id=id_, changes=changes, end_date=end_date, expected=expected))
    return await database.run(read_changed, before)


async def _act(database: Database, settings: Settings, caller: Caller, request: BackfillActed) -> BackfillRow:
    row = await get(database, request.backfill_id)
    await check_rights(database, settings, caller, row.dags, _name(row), f"{DONE[request.action]} a backfill")
    await apply_request(database, request)
    return await get(database, row.id, deleted=True)


def _name(row: BackfillRow) -> str:
    return object_name(OF_DAG, dag_id=row.dag_id, backfill_id=row.id)


async def _request_of(database: Database, spec: BackfillSpec, id_: int = 0) -> BackfillRequested:
    """The message that creates the backfill, once its conf is checked."""
    params = await checked_conf(database, spec.dag_id, spec.dag_params, CONF)
    return BackfillRequested(backfill_id=id_, params=params, **msgspec.structs.asdict(spec))


async def _preview(db: Db, request: BackfillRequested, limit: int) -> Preview:
    messages = [Message(body=request, at=db.now)]
    async with db.undone():  # A preview holds no lock of the DAG or the pool while it counts dates.
        state = await backfill_requested.load(db, messages)
    for effect in backfill_requested.decide(messages, state):
        if isinstance(effect, RejectMessage):
            raise RequestError(effect.message, reason=effect.reason, field=effect.field)
    if state.dag is None:
        return Preview([], more=False)
    backfill, graph = backfill_requested.view_of(request, state.dag, state.now), state.dag.graph
    find = _replayed_dates if is_replay(backfill, graph) else _timed_dates
    dates = await find(db, backfill, graph, most_counted(limit) + 1)
    if backfill.ignore_first_depends_on_past and dates and dates[0].action != "skip":
        dates[0] = msgspec.structs.replace(dates[0], reason=FIRST_IGNORES)
    found = preview_of(dates, limit)
    not_due = await run_sync(_not_due, backfill, graph) if found.is_exact else 0
    reached = (await backfills.dags_of_cascade(db, request.dag_id))[1:] if found.counts.get("rerun") else []
    cascades = request.outlets is Outlets.CASCADE
    consumers = (await dags_of(db, request))[1:]
    return msgspec.structs.replace(found, not_due=not_due, consumers=consumers, left=[] if cascades else reached)


async def _timed_dates(db: Db, backfill: BackfillView, graph: Graph, most: int) -> list[PreviewDate]:
    ticks = await run_sync(next_ticks, backfill, graph, most)
    found = await backfills.runs_of_dates(db, {(backfill.dag_id, tick.logical_date) for tick in ticks})
    existing = {date: run for (_, date), run in found.items()}
    return [_preview_date(date) for date in plan_dates(backfill, ticks, existing, most)]


def _preview_date(date: PlannedDate) -> PreviewDate:
    run_id = date.existing.run_id if date.existing else None
    action: PreviewAction = "skip" if date.reason else "rerun" if date.existing else "create"
    return PreviewDate(date.tick.logical_date, action, run_id, date.reason or "")


async def _replayed_dates(db: Db, backfill: BackfillView, _graph: Graph, most: int) -> list[PreviewDate]:
    found: Sequence[Consumer] = (await backfills.replayed(db, [backfill], most)).get(backfill.id, ())
    reasons = [(consumer, why_not_again(backfill, consumer)) for consumer in found]
    return [PreviewDate(it.order_at, "skip" if reason else "rerun", it.run.run_id, reason or "") for it, reason in reasons]


def _not_due(backfill: BackfillView, graph: Graph) -> int:
    """The number of dates after the horizon, up to a bound."""
    if backfill.end_date <= backfill.horizon - LONGEST_INTERVAL or is_replay(backfill, graph):
        return 0
    later = msgspec.structs.replace(backfill, horizon=max(backfill.end_date, backfill.horizon) + LONGEST_INTERVAL)
    due, all_ = (len(next_ticks(view, graph, MOST_COUNTED)) for view in (backfill, later))
    return all_ - due


def checked_limits(limits: Mapping[str, Any], type_: type[Limits]) -> Mapping[str, Any]:
    if unknown := limits.keys() - set(Limits.__struct_fields__):
        raise RequestError(f"there is no limit {min(unknown)!r}; limits are {', '.join(Limits.__struct_fields__)}")
    try:
        msgspec.convert({**msgspec.structs.asdict(type_()), **limits}, type_)
    except msgspec.ValidationError as error:
        name = str(error).partition("`$.")[2].rstrip("`")
        raise RequestError(f"{name} is out of range: write {RANGES[name]}", field=name) from error
    return limits
