"""Backfills."""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidegate.daemon import backfills
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params, Read, check_rights
from tidegate.daemon.gateway.lists import Id, Keyset, Listed, ListedOfDag, Time, newest_first
from tidegate.daemon.gateway.paths import BackfillPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.backfill import BackfillPage, read_backfill, read_backfill_page
from tidegate.daemon.read_model.backfill_effects import ChangedBackfill
from tidegate.daemon.read_model.backfill_preview import Preview
from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED
from tidegate.daemon.read_model.backfill_reasons import with_reasons
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.schemas.backfill import (
    MAX_DESCRIPTION,
    MAX_LISTED_DATES,
    MAX_ORDINAL,
    BackfillSpec,
    Limits,
    Outlets,
    Reprocess,
    SetLimits,
    limits_version,
)
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import backfill_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BackfillState, DateState

Ordinal = Annotated[int, Meta(ge=0, le=MAX_ORDINAL)]

NEWEST = newest_first("backfills")
DATES = Keyset("backfill dates", ("ordinal",), (Ordinal,))


class BackfillList(ListedOfDag, frozen=True):
    """The backfills of all DAGs, or some of them."""

    state: Annotated[BackfillState | None, Meta(description="Only backfills in this state.")] = None
    deleted: Annotated[bool, Meta(description="Also deleted ones.")] = False


class DateList(Listed, frozen=True, kw_only=True):
    """The planned dates of a backfill."""

    backfill_id: Annotated[Id, Meta(description="The number of the backfill.")]
    state: Annotated[DateState | None, Meta(description="Only dates in this state.")] = None
    after: Annotated[Ordinal, Meta(description="Only dates after this ordinal.")] = 0


class NewBackfill(Limits, Params, frozen=True):
    """A backfill: the dates of the DAG's timetable from `start_date` to `end_date`, or a list of `logical_dates`."""

    dag_id: str
    start_date: Time | None = None
    end_date: Time | None = None
    logical_dates: Annotated[tuple[Time, ...], Meta(max_length=MAX_LISTED_DATES)] | None = None
    dag_params: dict[str, Any] = msgspec.field(default_factory=dict)
    reprocess: Reprocess = Reprocess.NONE
    is_reverse: bool = False
    outlets: Outlets = Outlets.EVENTS
    description: Annotated[str, Meta(max_length=MAX_DESCRIPTION)] = ""
    ignore_first_depends_on_past: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.logical_dates) == (self.start_date is not None or self.end_date is not None):
            raise ValueError("give either start_date and end_date, or logical_dates")
        if not self.logical_dates and not (self.start_date and self.end_date):
            raise ValueError("give start_date and end_date")
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise ValueError("end_date is before start_date")

    def spec(self) -> BackfillSpec:
        dates = tuple(sorted(set(self.logical_dates or ())))
        ends = {"start_date": dates[0], "end_date": dates[-1]} if dates else {}
        return BackfillSpec(**{**msgspec.structs.asdict(self), "logical_dates": dates or None, **ends})


class PreviewQuery(Params, frozen=True):
    """How much a preview shows."""

    limit: Annotated[int, Meta(ge=1, le=MOST_COUNTED, description="The most dates of the answer.")] = 100


class BackfillPatch(Params, frozen=True):
    """New limits, as those of a new backfill, and a later last date. What is left out stays as it is."""

    limits: dict[str, int | float | str | None] = msgspec.field(default_factory=dict)
    end_date: Time | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            backfills.checked_limits(self.limits, SetLimits)
        except RequestError as error:
            raise ValueError(str(error)) from error
        if not self.limits and self.end_date is None:
            raise ValueError("give a limit, or end_date")


class Cancel(Params, frozen=True):
    """`kill`: also end its running runs; their attempts are killed."""

    kill: bool = False


class Retry(Params, frozen=True):
    """`newest_version`: with the newest version of the DAG, also for dates to come."""

    newest_version: bool = False


async def list_backfills(db: Db, call: Call[BackfillList]) -> Page[BackfillRow]:
    """List backfills, newest first."""
    params = call.params
    filters = {"state": params.state, "deleted": params.deleted, "before": NEWEST.first(params)}
    rows = await list_of_dag(db, backfill_pages.list_backfills, params.dag_id, limit=params.limit + 1, **filters)
    return NEWEST.page(rows, params)


async def show_backfill(db: Db, call: Call[BackfillPath]) -> BackfillPage:
    """Show a backfill: what was asked for, how far it has come, and its last dates."""
    return await read_backfill_page(db, call.params.backfill_id, call.settings)


async def list_dates(db: Db, call: Call[DateList]) -> Page[DateRow]:
    """List the planned dates of a backfill in their order, each with its run or why it has none, and what it waits for."""
    params = call.params
    backfill = await read_backfill(db, params.backfill_id, deleted=True)
    after = DATES.first(params) or params.after
    rows = await backfill_pages.list_dates(db, params.backfill_id, params.state, after, params.limit + 1)
    return DATES.page(await with_reasons(db, backfill, rows, call.settings), params)


async def preview_backfill(call: Call[PreviewQuery], body: NewBackfill) -> Preview:
    """Show what a backfill would do with each date; change nothing."""
    async with call.service.turns.of(call.caller.username):
        return await backfills.preview(call.database, body.spec(), call.params.limit)


async def create_backfill(call: Call[Params], body: NewBackfill) -> BackfillRow:
    """Run a DAG for past dates, with its newest version. Runs appear as there is room."""
    spec = body.spec()
    dags = await call.database.run(backfills.dags_of, spec)
    check_rights(call, Right.BACKFILL, dags)
    return await backfills.create(call.database, call.settings, call.caller, spec)


async def change_backfill(call: Call[BackfillPath], body: BackfillPatch) -> ChangedBackfill:
    """Change the limits of a backfill while it runs, or add dates at its end."""
    id_, tag = (await permitted(call)).id, call.facts.if_match
    expected = None if tag is None else tag.strip('"')
    return await backfills.change(call.database, call.settings, call.caller, id_, body.limits, body.end_date, expected=expected)


async def pause_backfill(call: Call[BackfillPath], _body: Nothing) -> BackfillRow:
    """Start no more runs of a backfill. Its running runs go on."""
    return await _act(call, backfills.pause)


async def resume_backfill(call: Call[BackfillPath], _body: Nothing) -> BackfillRow:
    """Resume a paused backfill."""
    return await _act(call, backfills.resume)


async def cancel_backfill(call: Call[BackfillPath], body: Cancel) -> BackfillRow:
    """End a backfill: its runs at work go on to their end, its other runs fail, and its other dates get no run."""
    return await _act(call, partial(backfills.cancel, kills=body.kill))


async def retry_backfill(call: Call[BackfillPath], body: Retry) -> BackfillRow:
    """Run the failed tasks of a backfill and what follows them again, all tasks of cancelled dates, and the dates left."""
    return await _act(call, partial(backfills.retry, newest_version=body.newest_version))


async def delete_backfill(call: Call[BackfillPath], _body: Nothing) -> BackfillRow:
    """Delete an ended backfill with its list of dates. Its runs stay."""
    return await _act(call, backfills.delete)


async def _act(call: Call[BackfillPath], act: backfills.Action) -> BackfillRow:
    row = await permitted(call)
    return await act(call.database, call.settings, call.caller, row.id)


async def permitted(call: Call[BackfillPath]) -> BackfillRow:
    """The backfill, whose DAGs the caller may change. Raises NotFoundError or ForbiddenError."""
    row = await backfills.get(call.database, call.params.backfill_id)
    check_rights(call, Right.BACKFILL, row.dags)
    return row


def _version(page: BackfillPage) -> str:
    return limits_version(page.backfill)


ID = "/backfills/{backfill_id}"

ENDPOINTS = (
    Read("/backfills", Right.VIEW, list_backfills, BackfillList, Page[BackfillRow]),
    Read(ID, Right.VIEW, show_backfill, BackfillPath, BackfillPage, version=_version, is_fresh=True),
    Read(f"{ID}/dates", Right.VIEW, list_dates, DateList, Page[DateRow]),
    Act("POST", "/backfills/preview", Right.VIEW, preview_backfill, PreviewQuery, NewBackfill, Preview),
    Act(
        "POST",
        "/backfills",
        Right.BACKFILL,
        create_backfill,
        Params,
        NewBackfill,
        BackfillRow,
        status=201,
        location="/backfills/{id}",
        does="created a backfill",
    ),
    Act(
        "PATCH",
        ID,
        Right.BACKFILL,
        change_backfill,
        BackfillPath,
        BackfillPatch,
        ChangedBackfill,
        versioned=True,
        does="changed a backfill",
    ),
    Act(
        "POST",
        f"{ID}/pause",
        Right.BACKFILL,
        pause_backfill,
        BackfillPath,
        Nothing,
        BackfillRow,
        does="paused a backfill",
    ),
    Act(
        "POST",
        f"{ID}/resume",
        Right.BACKFILL,
        resume_backfill,
        BackfillPath,
        Nothing,
        BackfillRow,
        does="resumed a backfill",
    ),
    Act(
        "POST",
        f"{ID}/cancel",
        Right.BACKFILL,
        cancel_backfill,
        BackfillPath,
        Cancel,
        BackfillRow,
        does="cancelled a backfill",
    ),
    Act(
        "POST",
        f"{ID}/retry",
        Right.BACKFILL,
        retry_backfill,
        BackfillPath,
        Retry,
        BackfillRow,
        does="retried a backfill",
    ),
    Act(
        "DELETE",
        ID,
        Right.BACKFILL,
        delete_backfill,
        BackfillPath,
        Nothing,
        BackfillRow,
        does="deleted a backfill",
    ),
)
