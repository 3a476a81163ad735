"""The past of a DAG: the states of its runs by day, and how long its last runs took."""

from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.read_model.plan import read_zone
from tidegate.schemas.queries import dag_pages, grid
from tidegate.schemas.queries.dag_pages import NoteRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import GridRun, Place, Usual
from tidegate.schemas.timetable.wallclock import local

COUNTED = 20_000
"""The newest runs of a year that its days count: more would make the page slow."""


LAST_NOTES = 20


class DagHistory(msgspec.Struct, frozen=True):
    """The days of a `year`, in the `timezone` of the DAG. `first` and `last` are those of the first and the last run, if any.

    `days` counts its runs by day and state; `is_cut`: older runs of the year are not counted.
    `runs` are the newest, or the newest before a place, oldest first; `has_older`: there are runs before them. `notes` are the
    last ticks and conditions that made no run.
    """

    year: int
    timezone: str
    first: date | None
    last: date | None
    days: Mapping[date, Mapping[str, int]]
    is_cut: bool
    runs: Sequence[GridRun]
    has_older: bool
    usual: Usual | None
    notes: Sequence[NoteRow] = ()


async def read_history(db: Db, dag_id: str, year: int | None, before: Place | None, limit: int) -> DagHistory:
    """The days of a year, or of that of the last run. Raises NotFoundError for an unknown DAG."""
    await find_dag(db, dag_id)
    clock = await read_zone(db, dag_id)
    first, last = await grid.range_of_runs(db, dag_id)
    shown = year or local(last or db.now, clock).year
    days = await grid.days(db, dag_id, shown, clock, COUNTED + 1)
    runs = await grid.runs_before(db, dag_id, before, limit + 1)
    return DagHistory(
        year=shown,
        timezone=clock,
        first=local(first, clock).date() if first else None,
        last=local(last, clock).date() if last else None,
        days=days,
        is_cut=sum(number for counts in days.values() for number in counts.values()) > COUNTED,
        runs=runs[:limit][::-1],
        has_older=len(runs) > limit,
        usual=await grid.usual(db, dag_id),
        notes=await dag_pages.list_notes(db, dag_id, LAST_NOTES),
    )
