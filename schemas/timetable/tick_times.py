"""The ticks of a timetable: the next one after a time, and the last one up to it. All times are aware; results are in UTC."""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import merge
from itertools import groupby, pairwise
from typing import NamedTuple, Protocol

from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.cron import compiled
from tidegate.schemas.timetable.spec import Cron, Dates, Every

NEVER_CLAMPED = 28
"""The last day that every month has."""


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


# Cached: months with seconds are walked one by one, thousands of them in a century, and each decision asks several times.
@lru_cache(maxsize=4096)
def _around(every: Every, anchor: datetime, instant: datetime) -> tuple[datetime, datetime]:
    """The last tick up to an instant and the first one after it."""
    if not every.months:
        period = timedelta(seconds=every.seconds)
        begin = anchor + (instant - anchor) // period * period
        return begin, begin + period
    if instant < anchor:
        return next((found, later) for later, found in pairwise(_steps(every, anchor, -1, instant)) if found <= instant)
    return next((before, found) for before, found in pairwise(_steps(every, anchor, 1, instant)) if found > instant)


def _steps(every: Every, anchor: datetime, direction: int, towards: datetime) -> Iterator[datetime]:
    """Ticks from the anchor on; they may begin later, at least one period before `towards`."""
    clock, months = every.timezone, every.months * direction
    seconds = timedelta(seconds=every.seconds * direction)
    wall = wallclock.local(anchor, clock)
    apart = abs((towards.year - wall.year) * 12 + towards.month - wall.month)
    skipped = 0 if seconds else max(0, apart // every.months - 2)
    wall = months_later(wall, months * skipped) if wall.day <= NEVER_CLAMPED else _clamped(wall, months, skipped)
    yield wallclock.instant(wall, clock) if skipped else anchor
    while True:
        wall = months_later(wall, months)
        if seconds:
            wall = wallclock.local(wallclock.instant(wall, clock) + seconds, clock)
        yield wallclock.instant(wall, clock)


def months_later(wall: datetime, months: int) -> datetime:
    """The wall clock time so many months later; a day that the month lacks becomes its last day."""
    years, index = divmod(wall.month - 1 + months, 12)
    year, month = wall.year + years, index + 1
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


def _clamped(wall: datetime, months: int, steps: int) -> datetime:
    """The wall clock time after so many steps, each of which can change the day; it takes no conversions between time zones."""
    for _ in range(steps):
        wall = months_later(wall, months)
    return wall


def ticks_of(timetable: Cron | Dates) -> Ticks:
    """The ticks of a timetable that needs no anchor."""
    return CronTicks(timetable) if isinstance(timetable, Cron) else DateTicks(_sorted(timetable))


@lru_cache(maxsize=1024)
def _sorted(dates: Dates) -> tuple[datetime, ...]:
    return tuple(sorted({date.astimezone(UTC) for date in dates.dates}))
