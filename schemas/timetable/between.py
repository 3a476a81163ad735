"""The runs that a timetable plans for a range of logical dates, in either order, whether they are due or not."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, pairwise, takewhile

from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.timetable.spec import Continuous, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import EPOCH, INSTANT, Bounds, Tick
from tidegate.schemas.timetable.tick_times import Grid, Ticks, ticks_of


def has_dates(timetable: Timetable | None) -> bool:
    """Whether a range of dates has runs. A timetable that plans each run from the end of the last one has none."""
    return not isinstance(timetable, Once | Continuous | None)


def anchor_of(timetable: Timetable | None, bounds: Bounds, start: datetime) -> datetime:
    """From when the periods of a timetable count: the start date of the DAG; without one the epoch, or `start` for months."""
    has_months = isinstance(timetable, Every) and timetable.months > 0
    return bounds.start_date or (start if has_months else EPOCH)


def ticks_between(
    timetable: Timetable | None, anchor: datetime, start: datetime, end: datetime, *, is_reverse: bool = False
) -> Iterator[Tick]:
    """The runs with logical dates from `start` to `end`, both included; the newest first if `is_reverse`.

    The periods of an `Every` count from `anchor`. The bounds of the DAG do not limit the range.
    """
    if timetable is None or isinstance(timetable, Once | Continuous):
        return
    ticks = Grid(timetable, anchor) if isinstance(timetable, Every) else ticks_of(timetable)
    length = timedelta(seconds=0 if isinstance(timetable, Dates) else timetable.interval_s)
    found = ticks.walk(end + length if is_reverse else start + length - INSTANT, is_reverse=is_reverse)
    if isinstance(timetable, Dates) or timetable.mode == "trigger":
        runs = (Tick(at - length, at - length, at, at) for at in found)
    else:
        runs = (Tick(at, at, until, until) for at, until in _periods(ticks, found, is_reverse=is_reverse))
    yield from takewhile(lambda run: start <= run.logical_date <= end, runs)


def _periods(ticks: Ticks, found: Iterator[datetime], *, is_reverse: bool) -> Iterator[tuple[datetime, datetime]]:
    """Each tick with the one after it, or with itself if it is the last."""
    if not is_reverse:
        yield from ((at, until or at) for at, until in pairwise(chain(found, (None,))) if at is not None)
        return
    until: datetime | None = None
    for at in found:
        yield at, until or ticks.after(at) or at
        until = at


def is_date(timetable: Timetable | None, anchor: datetime, at: datetime) -> bool:
    """Whether the timetable has a run with this logical date."""
    return next(ticks_between(timetable, anchor, at, at), None) is not None


def nearest_dates(timetable: Timetable | None, anchor: datetime, at: datetime) -> tuple[datetime | None, datetime | None]:
    """The last logical date up to `at` and the first one from `at` on, None where there is none. Both are `at` if it is one."""
    before = next(ticks_between(timetable, anchor, EARLIEST, at, is_reverse=True), None)
    after = next(ticks_between(timetable, anchor, at, LATEST), None)
    return before.logical_date if before else None, after.logical_date if after else None
