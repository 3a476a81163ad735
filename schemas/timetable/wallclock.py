"""Cron expressions on the wall clock of a time zone, across changes of its UTC offset.

Between two changes a zone has one offset. Each such period owns a range of wall clock times, which decides when a time of day
occurs: a skipped time belongs to the period before the change and comes later by the change; a repeated time belongs to the
period after it, and to both for an expression that matches in every hour. Instants are naive in UTC, wall clock times naive.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tidegate.schemas.timetable.cron import Expression

SECOND = timedelta(seconds=1)
NONE = timedelta()
DAY = timedelta(days=1)


class OffsetPeriod(NamedTuple):
    """The time from `start` to `end` in which the zone has one `offset`; `before` and `after` are those of the neighbours."""

    start: datetime
    end: datetime
    before: timedelta
    offset: timedelta
    after: timedelta

    @property
    def opens(self) -> datetime:
        """The first wall clock time of the period."""
        return self.start + self.offset

    def closes(self, *, every_hour: bool) -> datetime:
        """The end of the wall clock times of the period."""
        return self.end + (max(self.offset, self.after) if every_hour else self.after)

    @property
    def late(self) -> timedelta:
        """How far skipped times of the previous period reach into this one."""
        return max(self.offset - self.before, NONE)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """A time zone by name. Raises ValueError for an unknown one."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"there is no time zone {name!r}; write a name of the tz database, such as 'Europe/Zurich' or 'UTC'"
        ) from error


def after(expression: Expression, clock: str, instant: datetime) -> datetime | None:
    """The first match after `instant` on the wall clock of the time zone `clock`."""
    best: datetime | None = None
    every_hour = expression.every_hour
    for period in _onwards(clock, instant):
        if best is not None and best <= period.start:
            return best
        wall = expression.after(max(instant + period.offset, period.opens - SECOND))
        if wall is None:
            break
        if wall < period.closes(every_hour=every_hour):
            fires = wall - period.offset
            best = fires if best is None else min(best, fires)
    return best


def until(expression: Expression, clock: str, instant: datetime) -> datetime | None:
    """The last match up to `instant` on the wall clock of the time zone `clock`."""
    best: datetime | None = None
    every_hour = expression.every_hour
    for period in _backwards(clock, instant):
        wall = expression.until(min(instant + period.offset, period.closes(every_hour=every_hour) - SECOND))
        if wall is None:
            break
        if wall >= period.opens:
            fires = wall - period.offset
            best = fires if best is None else max(best, fires)
        if best is not None and best >= period.start + period.late:
            return best
    return best


def walk(expression: Expression, clock: str, instant: datetime, *, is_reverse: bool) -> Iterator[datetime]:
    """The matches after `instant`, or up to it, the nearest first."""
    found = until(expression, clock, instant) if is_reverse else after(expression, clock, instant)
    while found is not None:
        yield found
        last = found
        for last in _beside(expression, clock, found, is_reverse=is_reverse):
            yield last
        found = until(expression, clock, last - SECOND) if is_reverse else after(expression, clock, last)


def _beside(expression: Expression, clock: str, instant: datetime, *, is_reverse: bool) -> Iterator[datetime]:
    """The next matches after or before `instant`, up to one that lies in another offset period, or may come after one of it."""
    periods = offset_periods(clock, instant.year)
    period = periods[bisect_right(periods, instant, key=_start) - 1]
    first, end = period.start + period.late, min(period.end, period.closes(every_hour=expression.every_hour) - period.offset)
    if first <= instant < end:
        found = (wall - period.offset for wall in expression.beside(instant + period.offset, is_reverse=is_reverse))
        yield from takewhile(lambda at: first <= at < end, found)


def local(instant: datetime, clock: str) -> datetime:
    """The wall clock time of an aware instant."""
    return instant.astimezone(zone(clock)).replace(tzinfo=None)


def start_of_day(day: date, clock: str) -> datetime:
    """The instant at which a day begins: with the first midnight of two, and with the next day if the day is skipped."""
    return datetime.combine(day, time(), zone(clock)).astimezone(UTC)


def days_of_year(year: int, clock: str) -> list[datetime]:
    """The starts of the days of a year, and of the first day of the next one."""
    first, after = date(year, 1, 1), date(year + 1, 1, 1)
    return [start_of_day(first + DAY * number, clock) for number in range((after - first).days + 1)]


def instant(wall: datetime, clock: str) -> datetime:
    """The instant of a wall clock time: later by the change for a skipped time, the second one for a repeated time."""
    info = zone(clock)
    offsets = (info.utcoffset(wall.replace(fold=fold)) or NONE for fold in (0, 1))
    return (wall - min(offsets)).replace(tzinfo=UTC)


def _onwards(clock: str, instant: datetime) -> Iterator[OffsetPeriod]:
    """The offset periods from an instant on, in order."""
    year = instant.year
    periods = offset_periods(clock, year)
    index = bisect_right(periods, instant, key=_start) - 1
    if instant < periods[index].start + periods[index].late:
        yield periods[index - 1] if index else offset_periods(clock, year - 1)[-1]
    yield from periods[index:]
    while True:
        year += 1
        yield from offset_periods(clock, year)


def _backwards(clock: str, instant: datetime) -> Iterator[OffsetPeriod]:
    year = instant.year
    periods = offset_periods(clock, year)
    yield from reversed(periods[: bisect_right(periods, instant, key=_start)])
    while True:
        year -= 1
        yield from reversed(offset_periods(clock, year))


def _start(period: OffsetPeriod) -> datetime:
    return period.start


@lru_cache(maxsize=8192)
def offset_periods(clock: str, year: int) -> tuple[OffsetPeriod, ...]:
    """The offset periods that begin in a year of UTC; the first one begins with the year."""
    info = zone(clock)
    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
    starts = [begin, *_changes(info, begin, end), end]
    offsets = [_offset(info, begin - SECOND), *(_offset(info, start) for start in starts)]
    return tuple(
        OffsetPeriod(starts[index], starts[index + 1], offsets[index], offsets[index + 1], offsets[index + 2])
        for index in range(len(starts) - 1)
    )


def _changes(info: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The changes strictly between `begin` and `end`."""
    while begin < end:
        until = min(begin + DAY, end)
        if _offset(info, begin) != _offset(info, until - SECOND):
            yield _change(info, begin, until)
        elif until < end and _offset(info, until - SECOND) != _offset(info, until):
            yield until
        begin = until


def _change(info: ZoneInfo, begin: datetime, end: datetime) -> datetime:
    """The only change between two instants, to the second, by bisection."""
    offset = _offset(info, begin)
    while end - begin > SECOND:
        middle = (begin + (end - begin) / 2).replace(microsecond=0)
        begin, end = (middle, end) if _offset(info, middle) == offset else (begin, middle)
    return end


def _offset(info: ZoneInfo, instant: datetime) -> timedelta:
    return instant.replace(tzinfo=UTC).astimezone(info).utcoffset() or NONE
