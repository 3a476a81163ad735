"""The runs that a timetable plans, and their data intervals.

In trigger mode a run starts at a tick; in interval mode it starts at the tick that ends its data interval. `Bounds.missed`
decides which past ticks still get a run. The current time is always the argument `now`. All times are aware; results are in UTC.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from tidegate.schemas.time_range import EARLIEST, clamped
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick_times import Grid, Ticks, ticks_of

Missed = Literal["skip", "latest", "all"]

INSTANT = timedelta(microseconds=1)
"""The shortest time between two datetimes."""

MISSED_AFTER = timedelta(minutes=1)
"""A run that is later than this was missed."""

GRACE = timedelta(minutes=5)
"""How old the last tick may be for the first run; a tenth of a longer period."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Tick(NamedTuple):
    """A planned run, due from `run_after` on, the end of its data interval."""

    logical_date: datetime
    interval_start: datetime
    interval_end: datetime
    run_after: datetime


def was_missed(tick: Tick, now: datetime) -> bool:
    """Whether the run is more than a minute late."""
    return now - tick.run_after > MISSED_AFTER


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a DAG's scheduled runs.

    `start_date`, `end_date`: inclusive bounds of the logical dates; in trigger mode, of the ticks.
    `missed`: which past ticks still get a run: `skip` those younger than a minute, `latest` also the latest one, `all` every one.
    `run_immediately`: for the first run without a start date. True takes the last tick before `since`, False waits for the next
    one, None takes the last one if it is less than a tenth of the period, or five minutes, before `since`. An interval in trigger
    mode begins at once, or with False one period after `since`; in interval mode None is as True.
    `since`: when the DAG got its timetable; None means now. Waiting for a tick requires it: the tick after now moves with now.
    """

    start_date: datetime | None = None
    end_date: datetime | None = None
    missed: Missed = "latest"
    run_immediately: bool | None = None
    since: datetime | None = None


UNBOUND = Bounds()


def next_tick(timetable: Timetable | None, last: Tick | None, bounds: Bounds, now: datetime) -> Tick | None:
    """The scheduled run after `last`, the last scheduled one; None if there are no more.

    The run is due when its `run_after` is at most `now`.
    """
    now, bounds = clamped(now), _in_utc(bounds)
    match timetable:
        case None:
            return None
        case Once():
            return None if last else _run_at(timetable, bounds.start_date or now, bounds)
        case Continuous():
            return _continued(last, bounds, now)
        case Cron(mode="interval") | Every(mode="interval"):
            return _next_period(timetable, last, bounds, now)
        case Every():
            return _run_at(timetable, _elapsed(timetable, last, bounds, now), bounds)
        case Cron() | Dates():
            ticks, passed = ticks_of(timetable), last and _passed(timetable, last)
            return _run_at(timetable, ticks.after(_earliest(ticks, passed, bounds, now) - INSTANT), bounds)


def ticks_before(
    timetable: Timetable | None, last: Tick, planned: Tick, bounds: Bounds, now: datetime, most: int
) -> Sequence[Tick]:
    """The ticks after `last` and before `planned`, also missed ones; the first `most`."""
    every, found, tick = msgspec.structs.replace(bounds, missed="all"), list[Tick](), last
    while len(found) < most:
        following = next_tick(timetable, tick, every, now)
        if following is None or not tick.logical_date < following.logical_date < planned.logical_date:
            break
        found.append(tick := following)
    return found


def manual_interval(timetable: Timetable | None, at: datetime) -> tuple[datetime, datetime]:
    """The data interval of a manual run at `at`: the last complete period in interval mode, otherwise what ends there."""
    at = clamped(at)
    match timetable:
        case Cron(mode="interval"):
            ticks = ticks_of(timetable)
            end = ticks.until(at)
            start = end and ticks.until(end - INSTANT)
            return (start, end) if start and end else (at, at)
        case Every(mode="interval"):
            return Grid(timetable, at).until(at - INSTANT), at
        case Cron() | Every():
            return at - timedelta(seconds=timetable.interval_s), at
        case _:
            return at, at


def runs_after(timetable: Timetable | None, after: datetime, bounds: Bounds = UNBOUND) -> Iterator[Tick]:
    """The planned runs that become due after `after`. Each is planned at that time, when none of them was missed.

    An `Every` in trigger mode counts from its last run: pass the time of that as `after`.
    """
    after = clamped(after)
    match timetable:
        case Once() | Continuous():
            only = next_tick(timetable, None, bounds, after)
            if only and only.run_after > after:
                yield only
        case _:
            if isinstance(timetable, Every) and timetable.mode == "interval":
                after = Grid(timetable, clamped(bounds.start_date or after)).until(after)
            last = Tick(EARLIEST, EARLIEST, after, after)
            while planned := next_tick(timetable, last, bounds, after):
                yield planned
                last = planned


def _run_at(timetable: Timetable, at: datetime | None, bounds: Bounds) -> Tick | None:
    if at is None or (bounds.end_date and at > bounds.end_date):
        return None
    start = at - timedelta(seconds=timetable.interval_s if isinstance(timetable, Cron | Every) else 0)
    return Tick(start, start, at, at)


def _earliest(ticks: Ticks, passed: datetime | None, bounds: Bounds, now: datetime) -> datetime:
    """The earliest time of the next tick; ticks until `passed` are decided."""
    lowest = [passed + INSTANT] if passed else []
    if bounds.start_date:
        lowest.append(bounds.start_date)
    elif not passed:
        lowest.append(_first(ticks, bounds, bounds.since or now))
    # For a DAG that has run before, the last ticks before the end date may still be due.
    until = min(now, bounds.end_date) if passed and bounds.end_date else now
    match bounds.missed:
        case "skip":
            lowest.append(now - MISSED_AFTER)
        case "latest" if due := ticks.until(until):
            lowest.append(due)
    return max(lowest)


def _passed(timetable: Cron | Every | Dates, last: Tick) -> datetime:
    """The end of the decided ticks in trigger mode: the logical date of the next tick is later than the last one.

    The data interval may have been shorter, or none, when `last` was planned.
    """
    length = timedelta(seconds=0 if isinstance(timetable, Dates) else timetable.interval_s)
    return max(last.run_after, last.logical_date + length)


def _first(ticks: Ticks, bounds: Bounds, now: datetime) -> datetime:
    """The earliest time of the first tick of a DAG with neither a start date nor a run."""
    passed, coming = ticks.until(now), ticks.after(now)
    if passed is None or bounds.run_immediately is False:
        return now
    if bounds.run_immediately:
        return passed
    return passed if now - passed <= _grace(passed, coming) else now


def _grace(passed: datetime, coming: datetime | None) -> timedelta:
    return max((coming - passed) / 10, GRACE) if coming else GRACE


def _elapsed(every: Every, last: Tick | None, bounds: Bounds, now: datetime) -> datetime:
    """The next tick of an `Every` in trigger mode: counted from its last run, or from now after missed periods."""
    start = bounds.start_date or now
    if last is None and bounds.start_date is None and bounds.run_immediately is False:
        last = _run_at(every, bounds.since or now, UNBOUND)  # as if it had run then
    if last is None:
        return start if bounds.missed == "all" else max(start, now)
    grid = Grid(every, last.run_after)
    fires = max(grid.after(_passed(every, last)), bounds.start_date or last.run_after)
    if bounds.missed == "all" or now < fires:
        return fires
    if bounds.missed == "skip":
        return max(fires, grid.after(now - MISSED_AFTER - INSTANT))
    passed = grid.until(min(now, bounds.end_date) if bounds.end_date else now)
    is_over = bounds.end_date is not None and bounds.end_date < now  # The last tick before the end date may still be due.
    return max(fires, passed) if is_over or now - passed <= _grace(passed, grid.after(now)) else now


def _continued(last: Tick | None, bounds: Bounds, now: datetime) -> Tick | None:
    """A run from the end of the previous one to now. Its logical date is its end if the previous interval was empty."""
    start = max(last.interval_end if last else bounds.start_date or now, bounds.start_date or EARLIEST)
    end = max(start, now)
    if bounds.end_date and end > bounds.end_date:
        return None
    return Tick(end if last and last.logical_date == start else start, start, end, end)


def _next_period(timetable: Cron | Every, last: Tick | None, bounds: Bounds, now: datetime) -> Tick | None:
    start, ticks = (
        _cron_period(timetable, last, bounds, now) if isinstance(timetable, Cron) else _delta_period(timetable, last, bounds, now)
    )
    end = start and ticks.after(start)
    if start is None or end is None or (bounds.end_date and start > bounds.end_date):
        return None
    return Tick(start, start, end, end)


def _cron_period(cron: Cron, last: Tick | None, bounds: Bounds, now: datetime) -> tuple[datetime | None, Ticks]:
    """The start of the next data interval, and the ticks that end it."""
    ticks = ticks_of(cron)
    earliest = _earliest_start(ticks, last and _resumed(ticks, last), last, bounds, now)
    return ticks.after(earliest - INSTANT), ticks


def _delta_period(every: Every, last: Tick | None, bounds: Bounds, now: datetime) -> tuple[datetime, Ticks]:
    """As `_cron_period`. A period starts where the last one ended, also if that is not on the grid of the start date."""
    anchor = bounds.start_date or (EPOCH if not every.months else last.interval_end if last else bounds.since or now)
    ticks = Grid(every, anchor)
    start = _earliest_start(ticks, last and _resumed(Grid(every, last.interval_end), last), last, bounds, now)
    return start, ticks if ticks.until(start) == start else Grid(every, start)


def _resumed(ticks: Ticks, last: Tick) -> datetime:
    """The tick at the end of the last period, or before it if the timetable has changed; always after the logical date."""
    aligned = ticks.until(last.interval_end) or last.interval_end
    return aligned if aligned > last.interval_start else ticks.after(last.interval_start) or aligned


def _earliest_start(ticks: Ticks, resumed: datetime | None, last: Tick | None, bounds: Bounds, now: datetime) -> datetime:
    """The earliest start of the next data interval."""
    lowest = [moment for moment in (bounds.start_date, resumed) if moment]
    if not lowest:
        at = bounds.since or now
        lowest.append(ticks.until(at) or at if bounds.run_immediately is False else _missed_start(ticks, None, bounds, at))
    if bounds.missed != "all":
        lowest.append(_missed_start(ticks, last, bounds, now))
    return max(lowest)


def _missed_start(ticks: Ticks, last: Tick | None, bounds: Bounds, now: datetime) -> datetime:
    """The start of the oldest missed period that still gets a run."""
    end = ticks.after(now - MISSED_AFTER - INSTANT) if bounds.missed == "skip" else ticks.until(now)
    start = end and ticks.until(end - INSTANT)
    if start and last and bounds.end_date and bounds.missed == "latest":
        start = ticks.until(min(start, bounds.end_date))
    return start or end or now


def _in_utc(bounds: Bounds) -> Bounds:
    start, end, since = (moment and clamped(moment) for moment in (bounds.start_date, bounds.end_date, bounds.since))
    return Bounds(start_date=start, end_date=end, missed=bounds.missed, run_immediately=bounds.run_immediately, since=since)
