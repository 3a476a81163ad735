"""The runs that a timetable plans for a range of logical dates, in either order, whether they are due or not."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once, Timetable
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
    at = ticks.until(end + length) if is_reverse else ticks.after(start + length - INSTANT)
    while at is not None and start <= at - length <= end:
        yield _tick(timetable, ticks, at, length)
        at = ticks.until(at - INSTANT) if is_reverse else ticks.after(at)


def is_date(timetable: Timetable | None, anchor: datetime, at: datetime) -> bool:
    """Whether the timetable has a run with this logical date."""
    return next(ticks_between(timetable, anchor, at, at), None) is not None


def nearest_dates(timetable: Timetable | None, anchor: datetime, at: datetime) -> tuple[datetime | None, datetime | None]:
    """The last logical date up to `at` and the first one from `at` on, None where there is none. Both are `at` if it is one."""
    before = next(ticks_between(timetable, anchor, EARLIEST, at, is_reverse=True), None)
    after = next(ticks_between(timetable, anchor, at, LATEST), None)
    return before.logical_date if before else None, after.logical_date if after else None


def _tick(timetable: Cron | Every | Dates, ticks: Ticks, at: datetime, length: timedelta) -> Tick:
    """The run of a tick. `length` is the time from the logical date to the tick, in trigger mode."""
    if isinstance(timetable, Dates) or timetable.mode == "trigger":
        return Tick(at - length, at - length, at, at)
    end = ticks.after(at) or at
    return Tick(at, at, end, end)
