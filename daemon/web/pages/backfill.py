"""A backfill: why it waits, its failures first, its dates as a calendar and as a list, and what may be done with it."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from msgspec import Meta, Struct

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Year
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.backfill import BackfillPage, read_backfill, read_backfill_page, share_text
from tidegate.daemon.read_model.backfill_progress import Progress, per_hour
from tidegate.daemon.read_model.backfill_reasons import why
from tidegate.daemon.read_model.plan import read_zone
from tidegate.daemon.web.fact import Fact
from tidegate.daemon.web.heat_map import HeatMap, Square, heat_map, legend
from tidegate.daemon.web.numbers import UNKNOWN, Stat, at_least, percent
from tidegate.daemon.web.pages.backfill_facts import asked_for, limits
from tidegate.daemon.web.screen import Screen
from tidegate.handlers.backfills.stop import has_dates_to_retry
from tidegate.schemas.message import BackfillAction
from tidegate.schemas.queries import backfill_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, FailedDate, PoolShare
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState, DateState
from tidegate.schemas.text import span
from tidegate.schemas.timetable.wallclock import local, start_of_day

BACKFILL = "/backfills/{backfill_id}"

CHANGE = "change"

FAILURES = 20


class BackfillParams(Params, frozen=True, kw_only=True):
    """A backfill; the year of its calendar; and the filters of its dates: a state, a day, a first ordinal."""

    backfill_id: Id
    year: Year | None = None
    state: DateState | None = None
    day: date | None = None
    after: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    rows: Annotated[int, Meta(ge=1, le=500)] = 50


class BackfillScreen(Struct, frozen=True):
    """A backfill with those of its dates that match the filters. `next_after` is the filter for the next ones."""

    found: BackfillPage
    stats: Sequence[Stat]
    why: str
    asked_for: Sequence[Fact]
    limits: Sequence[Fact]
    shares: Sequence[tuple[PoolShare, str]]
    actions: Sequence[str]
    failures: Sequence[FailedDate]
    calendar: HeatMap
    timezone: str
    next_after: int | None
    states: Sequence[DateState]
    legend: Sequence[tuple[str, Square]] = legend("success", "open", "failed", "retry", skipped="skipped or cancelled")

    @property
    def holds_up_others(self) -> bool:
        """Whether tasks of other runs wait in a pool in which it holds slots."""
        return any(share.others for share, _ in self.shares)


async def read(db: Db, call: Call[BackfillParams]) -> BackfillScreen:
    params = call.params
    clock = await read_zone(db, (await read_backfill(db, params.backfill_id, deleted=True)).dag_id)
    dates = await _dates(db, params, clock)
    found = await read_backfill_page(db, params.backfill_id, call.settings, dates[: params.rows])
    row = found.backfill
    return BackfillScreen(
        found=found,
        stats=stats(row, found.progress, per_hour(row, db.now, found.progress)),
        why=why(row),
        asked_for=asked_for(row, db.now),
        limits=limits(row),
        shares=[(share, share_text(share)) for share in found.shares],
        actions=actions_of(row),
        failures=await backfill_pages.list_failures(db, row.id, FAILURES) if row.failed else (),
        calendar=await _calendar(db, row, params.year, clock),
        timezone=clock,
        next_after=dates[params.rows - 1].ordinal if len(dates) > params.rows else None,
        states=list(DateState),
    )


async def _dates(db: Db, params: BackfillParams, clock: str) -> list[DateRow]:
    since = start_of_day(params.day, clock) if params.day else None
    return await backfill_pages.list_dates(db, params.backfill_id, params.state, params.after, params.rows + 1, since=since)


async def _calendar(db: Db, row: BackfillRow, year: int | None, clock: str) -> HeatMap:
    """Of the year that is asked for, or that of the date that was planned last."""
    shown = year or local(row.planned_until or row.start_date, clock).year
    counts = await backfill_pages.count_days(db, row.id, shown, clock)
    return heat_map(shown, local(row.start_date, clock).date(), local(row.end_date, clock).date(), counts)


def stats(row: BackfillRow, progress: Progress, rate: float | None) -> list[Stat]:
    """`unplanned` dates count only where a backfill that stopped does not plan them."""
    runs = [
        f"of {at_least(progress.dagruns, 'run', 'runs', is_exact=progress.is_exact)} ended",
        *([f"{progress.again:,} to run again"] if progress.again else []),
        *([f"{progress.unplanned:,} not started"] if progress.unplanned and row.stop_reason else []),
    ]
    return [
        Stat(percent(progress.done), f"of {at_least(progress.tasks, 'task', 'tasks', is_exact=progress.is_exact)}"),
        Stat(f"{row.ended:,}", "; ".join(runs)),
        Stat(f"{row.failed:,}", "failed", is_bad=row.failed > 0),
        Stat(f"{row.running:,}", f"running, at most {row.max_active_runs:,}; {row.queued:,} queued"),
        Stat(f"{rate:,.0f}" if rate else UNKNOWN, "runs per hour"),
        Stat(UNKNOWN if progress.left_s is None else span(progress.left_s), "left at this pace"),
    ]


def actions_of(row: BackfillRow) -> list[str]:
    """What a user may want to do with the backfill in its state, the usual first. The decision about each is that of its form."""
    if row.deleted:
        return []
    retry = [BackfillAction.RETRY] if has_dates_to_retry(row) else []
    if row.state in BACKFILL_ENDED:
        return [*retry, CHANGE, BackfillAction.DELETE]
    if row.state is BackfillState.CANCELLING:
        return [] if row.kills else [BackfillAction.CANCEL]
    turn = BackfillAction.RESUME if row.state is BackfillState.PAUSED else BackfillAction.PAUSE
    return [turn, *retry, CHANGE, BackfillAction.CANCEL]


SCREEN = Screen(Read(BACKFILL, Right.VIEW, read, BackfillParams, BackfillScreen), "backfill.html")
