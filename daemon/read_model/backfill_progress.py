"""How far a backfill has come, and the time that it has left."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from weakref import WeakKeyDictionary

import msgspec

from tidegate.daemon.read_model.backfill_reasons import is_stuck
from tidegate.handlers.backfills.dates import is_replay, next_ticks
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import versions
from tidegate.schemas.queries.backfill_pages import BackfillRow, Pace, read_paces
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState

MOST_COUNTED = 10_000
"""The most dates that are counted before they are planned, and the most tasks that are counted in the queue of a pool."""


RECENT_DATES = 50
"""The last planned dates, whose runs show the recent pace."""

FEWEST_RUNS = 3
"""Fewer runs show no pace."""

HOUR_S = 3600


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a backfill has come. `dagruns` and `tasks` include those to come; `is_exact` is false if there may be more.

    `finished` tasks are the sum of the three after it. The runs of `again` planned dates are to run again, and `unplanned` dates
    are not planned: a backfill that stopped keeps them for a retry.
    `left_s` estimates the time left, and `per_hour` is the number of dates that end in an hour. They follow the runs that ended
    since the last change of the backfill, or else all; they are None while nothing has ended or nothing goes on.
    """

    dagruns: int
    tasks: int
    finished: int
    succeeded: int
    skipped: int
    failed: int
    again: int = 0
    unplanned: int = 0
    is_exact: bool = True
    left_s: float | None = None
    per_hour: float | None = None

    @property
    def done(self) -> float:
        """The finished part, from 0 to 1. Without any task it is done, unless more may follow."""
        return self.finished / self.tasks if self.tasks else float(self.is_exact)


async def read_progress(db: Db, row: BackfillRow) -> Progress:
    """The dates to come are counted from the timetable, up to a bound; not at all if the version cannot be read."""
    return (await read_all_progress(db, [row]))[row.id]


async def read_all_progress(db: Db, rows: Sequence[BackfillRow]) -> Mapping[int, Progress]:
    """As `read_progress`, by backfill."""
    graphs = await versions.readable(db, {row.version_id for row in rows})
    paces = await read_paces(db, rows, RECENT_DATES)
    return {row.id: _progress(row, graphs.get(row.version_id), db.now, paces[row.id]) for row in rows}


def _progress(row: BackfillRow, graph: Graph | None, now: datetime, recent: Pace) -> Progress:
    return progress(row, graph, 0 if graph is None or row.is_planned else dates_left(row, graph), now, recent)


def dates_left(row: BackfillRow, graph: Graph) -> int:
    """The dates that are not planned yet, up to a bound. They are counted once: later, the ones planned since are taken off."""
    counted = _COUNTED.setdefault(graph, {})
    key = (row.id, row.start_date, row.end_date, row.horizon, row.is_reverse)
    dates, left = counted.get(key, (row.dates + 1, 0))
    planned = row.dates - dates
    if planned < 0 or (planned and left > MOST_COUNTED):
        planned, left = 0, len(next_ticks(row, graph, MOST_COUNTED + 1))
        counted[key] = (row.dates, left)
    return max(left - planned, 0)


_COUNTED: WeakKeyDictionary[Graph, dict[tuple[object, ...], tuple[int, int]]] = WeakKeyDictionary()
"""By version and backfill: how many dates were planned, and how many were left, at the count."""


def progress(row: BackfillRow, graph: Graph | None, left: int, now: datetime, recent: Pace | None = None) -> Progress:
    """`left` dates are not planned yet, and the runs of others wait to run again: their tasks are as many as the version has."""
    size = 0 if graph is None else len(graph.nodes)
    again = max(row.dates - row.ended - row.skipped - row.queued - row.running, 0)
    without_tasks = left + row.unstarted + again
    found = Progress(
        dagruns=row.dates - row.skipped + left,
        tasks=row.tasks + without_tasks * size,
        finished=row.tasks_succeeded + row.tasks_skipped + row.tasks_failed,
        succeeded=row.tasks_succeeded,
        skipped=row.tasks_skipped,
        failed=row.tasks_failed,
        again=again,
        unplanned=left,
        is_exact=has_all_dates(row) or (graph is not None and _is_counted(row, graph, left)),
    )
    pace = _pace(row, found, now, recent)
    if pace is None:
        return found
    taken_s, runs, tasks = pace
    left_s = taken_s * (found.tasks - found.finished) / tasks if tasks else None
    return msgspec.structs.replace(found, left_s=left_s, per_hour=_rate(runs, taken_s))


def per_hour(row: BackfillRow, now: datetime, found: Progress | None) -> float | None:
    """The dates that end in an hour, at the pace of its progress or else on average; None before the first one."""
    if found and found.per_hour:
        return found.per_hour
    start = row.run_start_date
    return None if start is None else _rate(row.ended, ((row.run_end_date or now) - start).total_seconds())


def _rate(runs: int, taken_s: float) -> float | None:
    """The runs of an hour; None without a run."""
    return runs * HOUR_S / max(taken_s, 1.0) if runs else None


def _is_counted(row: BackfillRow, graph: Graph, left: int) -> bool:
    """Whether `left` are all dates that are not planned: the runs of a replay and of consumers are found, not counted."""
    return left <= MOST_COUNTED and not row.stages and not is_replay(row, graph)


def has_all_dates(row: BackfillRow) -> bool:
    """Whether no more dates will be planned. A backfill that stopped keeps the dates that it did not plan: a retry does."""
    return row.is_planned and row.stage == len(row.stages)


def date_counts(row: BackfillRow, found: Progress) -> Mapping[str, int]:
    """The numbers of dates by outcome; each date is in one of them."""
    has_stopped = bool(row.stop_reason) or row.state in BACKFILL_ENDED
    return {
        "queued": row.queued,
        "running": row.running,
        "succeeded": row.succeeded,
        "failed": row.failed,
        "skipped": row.skipped,
        "cancelled": row.cancelled,
        "to run again": found.again,
        "not started" if has_stopped else "to come": found.unplanned,
    }


def _pace(row: BackfillRow, found: Progress, now: datetime, recent: Pace | None) -> tuple[float, int, int] | None:
    """The seconds that runs and tasks took: recent ones if these are enough, else all. None while nothing goes on."""
    is_at_work = row.state is BackfillState.RUNNING and not (row.stop_reason or row.dag_state or is_stuck(row))
    if row.run_start_date is None or not is_at_work:
        return None
    if recent is not None and recent.since is not None and recent.runs >= FEWEST_RUNS:
        return (now - recent.since).total_seconds(), recent.runs, recent.tasks
    return (now - row.run_start_date).total_seconds(), row.ended, found.finished
