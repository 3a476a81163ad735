"""The list of backfills: how far each is, and why it waits."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from tidegate.daemon.api.backfills import NEWEST
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.backfill import dates_text
from tidegate.daemon.read_model.backfill_progress import Progress, per_hour, read_all_progress
from tidegate.daemon.read_model.backfill_reasons import why
from tidegate.daemon.web.numbers import at_least, percent
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.backfill_pages import BackfillRow, list_backfills
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState
from tidegate.schemas.text import counted


class BackfillList(Listed, frozen=True):
    """`dag` is the id of a DAG. `deleted`: also deleted ones."""

    dag: str | None = None
    state: BackfillState | None = None
    deleted: bool = False
    limit: Annotated[int, Meta(ge=1, le=100)] = 25


class BackfillLine(Struct, frozen=True):
    """A line of the list. `progress` is None for one that has ended.

    `per_hour` is the number of dates that ended in an hour, None before the first one. `why` is the reason of its state.
    """

    row: BackfillRow
    progress: Progress | None
    per_hour: float | None
    why: str

    @property
    def dates(self) -> str:
        return dates_text(self.row, day)

    @property
    def text(self) -> str:
        """How far it is: `45% of tasks, 9 of 20+ runs`."""
        ended, found = f"{self.row.ended:,}", self.progress
        if found is None:
            return f"{ended} of {counted(self.row.dates - self.row.skipped, 'run', 'runs')} ended"
        runs = at_least(found.dagruns, "run", "runs", is_exact=found.is_exact)
        return f"{percent(found.done)} of tasks, {ended} of {runs}"


def day(at: datetime) -> str:
    """`2013-01-31`."""
    return f"{at.astimezone(UTC):%Y-%m-%d}"


class BackfillsScreen(Struct, frozen=True):
    """A part of the list. `states` are the filters of the list."""

    lines: Page[BackfillLine]
    states: Sequence[BackfillState]


async def read(db: Db, call: Call[BackfillList]) -> BackfillsScreen:
    params = call.params
    filters = {"state": params.state, "deleted": params.deleted, "before": NEWEST.first(params)}
    rows = await list_backfills(db, dag_id=params.dag or None, limit=params.limit + 1, **filters)
    shown = NEWEST.page(rows, params)
    progress = await read_all_progress(db, [row for row in shown.items if row.state not in BACKFILL_ENDED])
    lines = [_line(row, progress.get(row.id), db.now) for row in shown.items]
    return BackfillsScreen(Page(lines, shown.next_cursor), list(BackfillState))


def _line(row: BackfillRow, progress: Progress | None, now: datetime) -> BackfillLine:
    return BackfillLine(row, progress, per_hour(row, now, progress), why(row))


SCREEN = Screen(Read("/backfills", Right.VIEW, read, BackfillList, BackfillsScreen), "backfills.html")
