"""The ticks of a timetable: the next one after a time, and the last one up to it. All times are aware; results are in UTC."""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from heapq import merge
from itertools import groupby
from threading import Lock
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


def _around(every: Every, anchor: datetime, instant: datetime) -> tuple[datetime, datetime]:
    """The last tick up to an instant and the first one after it."""
    if not every.months:
        period = timedelta(seconds=every.seconds)
        begin = anchor + (instant - anchor) // period * period
        return begin, begin + period
    wall = wallclock.local(anchor, every.timezone)
    if every.seconds or wall.day > NEVER_CLAMPED:
        return _chain(every, anchor).around(instant)
    towards = wallclock.local(instant, every.timezone)
    index = ((towards.year - wall.year) * 12 + towards.month - wall.month) // every.months
    near = [_of_whole_months(every, anchor, wall, each) for each in range(index - 1, index + 3)]
    later = bisect_right(near, instant)
    return near[later - 1], near[later]


def _of_whole_months(every: Every, anchor: datetime, wall: datetime, index: int) -> datetime:
    """The tick so many periods after the anchor, whose day every month has."""
    return wallclock.instant(months_later(wall, every.months * index), every.timezone) if index else anchor


class _Chain:
    """Ticks that depend on the ones before: of months with seconds, or of a day that some months lack. Each is made once."""

    def __init__(self, every: Every, anchor: datetime) -> None:
        self._every = every
        self._ticks = [anchor]
        self._first = self._last = wallclock.local(anchor, every.timezone)
        self._growing = Lock()  # Previews ask in threads of their own.

    def around(self, instant: datetime) -> tuple[datetime, datetime]:
        """The last tick up to an instant and the first one after it."""
        with self._growing:
            while self._ticks[-1] <= instant:
                tick, self._last = self._step(self._last, 1)
                self._ticks.append(tick)
            while self._ticks[0] > instant:
                tick, self._first = self._step(self._first, -1)
                self._ticks.insert(0, tick)
            later = bisect_right(self._ticks, instant)
            return self._ticks[later - 1], self._ticks[later]

    def _step(self, wall: datetime, direction: int) -> tuple[datetime, datetime]:
        """The tick one period after that of a wall clock time, or before it, and its own wall clock time."""
        clock, seconds = self._every.timezone, timedelta(seconds=self._every.seconds * direction)
        wall = months_later(wall, self._every.months * direction)
        if seconds:
            wall = wallclock.local(wallclock.instant(wall, clock) + seconds, clock)
        return wallclock.instant(wall, clock), wall


# Cached: there are thousands of ticks in a century, and each decision asks several times.
@lru_cache(maxsize=256)
def _chain(every: Every, anchor: datetime) -> _Chain:
    return _Chain(every, anchor)


def months_later(wall: datetime, months: int) -> datetime:
    """The wall clock time so many months later; a day that the month lacks becomes its last day."""
    years, index = divmod(wall.month - 1 + months, 12)
    year, month = wall.year + years, index + 1
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


def ticks_of(timetable: Cron | Dates) -> Ticks:
    """The ticks of a timetable that needs no anchor."""
    return CronTicks(timetable) if isinstance(timetable, Cron) else DateTicks(_sorted(timetable))


@lru_cache(maxsize=1024)
def _sorted(dates: Dates) -> tuple[datetime, ...]:
    return tuple(sorted({date.astimezone(UTC) for date in dates.dates}))
