"""The ticks of a timetable: the next one after a time, and the last one up to it. All times are aware; results are in UTC."""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import merge
from itertools import groupby
from typing import NamedTuple, Protocol

from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.cron import compiled
from tidegate.schemas.timetable.spec import Cron, Dates, Every

NEVER_CLAMPED = 28
"""The last day that every month has."""

LINK_SPAN = timedelta(days=3 * 365)
"""How much of a chain of ticks is made together."""


class Ticks(Protocol):
    """The ticks of a timetable."""

    def after(self, instant: datetime, /) -> datetime | None:
        """The first tick after `instant`."""

    def until(self, instant: datetime, /) -> datetime | None:
        """The last tick up to `instant`."""

    def walk(self, instant: datetime, /, *, is_reverse: bool) -> Iterator[datetime]:
        """The ticks after `instant`, or up to it, the nearest first."""


class CronTicks(NamedTuple):
    """The ticks of all expressions."""

    cron: Cron

    def after(self, instant: datetime, /) -> datetime | None:
        return _cron_after(self.cron, instant)

    def until(self, instant: datetime, /) -> datetime | None:
        return _cron_until(self.cron, instant)

    def walk(self, instant: datetime, /, *, is_reverse: bool) -> Iterator[datetime]:
        naive, clock = instant.astimezone(UTC).replace(tzinfo=None), self.cron.timezone
        walks = (wallclock.walk(compiled(each), clock, naive, is_reverse=is_reverse) for each in self.cron.expressions)
        return (tick.replace(tzinfo=UTC) for tick, _ in groupby(merge(*walks, reverse=is_reverse)))


# Cached: DAGs that are due together often share a timetable, and each decision asks several times.
@lru_cache(maxsize=4096)
def _cron_after(cron: Cron, instant: datetime) -> datetime | None:
    return min(_ticks(cron, wallclock.after, instant), default=None)


@lru_cache(maxsize=4096)
def _cron_until(cron: Cron, instant: datetime) -> datetime | None:
    return max(_ticks(cron, wallclock.until, instant), default=None)


def _ticks(cron: Cron, search: Callable[..., datetime | None], instant: datetime) -> Iterator[datetime]:
    naive = instant.astimezone(UTC).replace(tzinfo=None)
    for expression in cron.expressions:
        if tick := search(compiled(expression), cron.timezone, naive):
            yield tick.replace(tzinfo=UTC)


class DateTicks(NamedTuple):
    """The ticks of a sorted list of dates."""

    dates: tuple[datetime, ...]

    def after(self, instant: datetime, /) -> datetime | None:
        index = bisect_right(self.dates, instant)
        return self.dates[index] if index < len(self.dates) else None

    def until(self, instant: datetime, /) -> datetime | None:
        index = bisect_right(self.dates, instant)
        return self.dates[index - 1] if index else None

    def walk(self, instant: datetime, /, *, is_reverse: bool) -> Iterator[datetime]:
        index = bisect_right(self.dates, instant)
        return reversed(self.dates[:index]) if is_reverse else iter(self.dates[index:])


class Grid(NamedTuple):
    """The ticks at whole periods from an anchor."""

    every: Every
    anchor: datetime

    def after(self, instant: datetime, /) -> datetime:
        return _around(self.every, self.anchor, instant)[1]

    def until(self, instant: datetime, /) -> datetime:
        return _around(self.every, self.anchor, instant)[0]

    def walk(self, instant: datetime, /, *, is_reverse: bool) -> Iterator[datetime]:
        at = self.until(instant) if is_reverse else self.after(instant)
        while True:
            yield at
            at = self.until(at - timedelta.resolution) if is_reverse else self.after(at)


def _around(every: Every, anchor: datetime, instant: datetime) -> tuple[datetime, datetime]:
    """The last tick up to an instant and the first one after it."""
    if not every.months:
        period = timedelta(seconds=every.seconds)
        begin = anchor + (instant - anchor) // period * period
        return begin, begin + period
    wall = wallclock.local(anchor, every.timezone)
    if every.seconds or wall.day > NEVER_CLAMPED:
        return _around_in_chain(every, anchor, instant)
    towards = wallclock.local(instant, every.timezone)
    index = ((towards.year - wall.year) * 12 + towards.month - wall.month) // every.months
    near = [_of_whole_months(every, anchor, wall, each) for each in range(index - 1, index + 3)]
    later = bisect_right(near, instant)
    return near[later - 1], near[later]


def _of_whole_months(every: Every, anchor: datetime, wall: datetime, index: int) -> datetime:
    """The tick `index` periods after the anchor, whose day every month has."""
    return wallclock.instant(months_later(wall, every.months * index), every.timezone) if index else anchor


def _around_in_chain(every: Every, anchor: datetime, instant: datetime) -> tuple[datetime, datetime]:
    """As `_around`, for ticks that depend on the ones before: of months with seconds, or of a day that some months lack."""
    direction = -1 if instant < anchor else 1
    ticks = _link(every, anchor, direction, abs(instant - anchor) // LINK_SPAN).ticks[::direction]
    later = bisect_right(ticks, instant)
    return ticks[later - 1], ticks[later]


class Link(NamedTuple):
    """The ticks of one `LINK_SPAN` after the anchor, or before it, and the nearest one on each side of it.

    The nearest to the anchor is the first. `wall` is the wall clock time of the last one.
    """

    ticks: tuple[datetime, ...]
    wall: datetime


# Cached: a century has thousands of ticks, and each decision asks several times.
@lru_cache(maxsize=2048)
def _link(every: Every, anchor: datetime, direction: int, index: int) -> Link:
    """The link with `index` spans before it; the one before it tells where it begins."""
    clock, months, seconds = every.timezone, every.months * direction, timedelta(seconds=every.seconds * direction)
    before = _link(every, anchor, direction, index - 1) if index else Link((anchor,), wallclock.local(anchor, clock))
    ticks, wall = list(before.ticks[-2:]), before.wall
    while abs(ticks[-1] - anchor) < LINK_SPAN * (index + 1):
        wall = months_later(wall, months)
        if seconds:
            wall = wallclock.local(wallclock.instant(wall, clock) + seconds, clock)
        ticks.append(wallclock.instant(wall, clock))
    return Link(tuple(ticks), wall)


def months_later(wall: datetime, months: int) -> datetime:
    """The wall clock time a number of months later; a day that the month lacks becomes its last day."""
    years, index = divmod(wall.month - 1 + months, 12)
    year, month = wall.year + years, index + 1
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


def ticks_of(timetable: Cron | Dates) -> Ticks:
    """The ticks of a timetable that needs no anchor."""
    return CronTicks(timetable) if isinstance(timetable, Cron) else DateTicks(_sorted(timetable))


@lru_cache(maxsize=1024)
def _sorted(dates: Dates) -> tuple[datetime, ...]:
    return tuple(sorted({date.astimezone(UTC) for date in dates.dates}))
