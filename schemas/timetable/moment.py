"""The moments that a timetable names: the next one after an instant and the last one until it.

All times have a zone, those returned are in UTC.
"""

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.cron import compiled
from tidegate.schemas.timetable.spec import Cron, Dates, Every

EARLIEST = datetime(1800, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Between these two every computation stays inside what a datetime can hold."""
NEVER_CLAMPED = 28
"""The last day of the month that every month has."""


class Moments(Protocol):
    """What a timetable names, without an end in either direction where it has none."""

    def after(self, instant: datetime, /) -> datetime | None:
        """The first one later than `instant`."""

    def until(self, instant: datetime, /) -> datetime | None:
        """The last one not later than `instant`."""


class CronMoments(NamedTuple):
    """Those of any of the expressions, of instants between `EARLIEST` and `LATEST`."""

    cron: Cron

    def after(self, instant: datetime, /) -> datetime | None:
        return _cron_after(self.cron, instant)

    def until(self, instant: datetime, /) -> datetime | None:
        return _cron_until(self.cron, instant)


# DAGs that are due together often have the same timetable, and each decision asks more than once.
@lru_cache(maxsize=4096)
def _cron_after(cron: Cron, instant: datetime) -> datetime | None:
    return min(_each(cron, wallclock.after, instant), default=None)


@lru_cache(maxsize=4096)
def _cron_until(cron: Cron, instant: datetime) -> datetime | None:
    return max(_each(cron, wallclock.until, instant), default=None)


def _each(cron: Cron, find: Callable[..., datetime | None], instant: datetime) -> Iterator[datetime]:
    naive = instant.astimezone(UTC).replace(tzinfo=None)
    for expression in cron.expressions:
        if found := find(compiled(expression), cron.timezone, naive):
            yield found.replace(tzinfo=UTC)


class DateMoments(NamedTuple):
    """Those of a list, in order."""

    dates: tuple[datetime, ...]

    def after(self, instant: datetime, /) -> datetime | None:
        index = bisect_right(self.dates, instant)
        return self.dates[index] if index < len(self.dates) else None

    def until(self, instant: datetime, /) -> datetime | None:
        index = bisect_right(self.dates, instant)
        return self.dates[index - 1] if index else None


class Grid(NamedTuple):
    """Those that are whole periods away from an anchor."""

    every: Every
    anchor: datetime

    def after(self, instant: datetime, /) -> datetime:
        return self._around(instant)[1]

    def until(self, instant: datetime, /) -> datetime:
        return self._around(instant)[0]

    def _around(self, instant: datetime) -> tuple[datetime, datetime]:
        """The last one until an instant and the first one after it."""
        if not self.every.months:
            period = timedelta(seconds=self.every.seconds)
            begin = self.anchor + (instant - self.anchor) // period * period
            return begin, begin + period
        if instant < self.anchor:
            return next((found, later) for later, found in pairwise(self._steps(-1, instant)) if found <= instant)
        return next((before, found) for before, found in pairwise(self._steps(1, instant)) if found > instant)

    def _steps(self, direction: int, towards: datetime) -> Iterator[datetime]:
        """From the anchor on, or from a moment on the way, at least a period before `towards`."""
        clock, months = self.every.timezone, self.every.months * direction
        seconds = timedelta(seconds=self.every.seconds * direction)
        wall = wallclock.local(self.anchor, clock)
        apart = abs((towards.year - wall.year) * 12 + towards.month - wall.month)
        skipped = 0 if seconds or wall.day > NEVER_CLAMPED else max(0, apart // self.every.months - 2)
        wall = months_later(wall, months * skipped)
        yield wallclock.instant(wall, clock) if skipped else self.anchor
        while True:
            wall = months_later(wall, months)
            if seconds:
                wall = wallclock.local(wallclock.instant(wall, clock) + seconds, clock)
            yield wallclock.instant(wall, clock)


def months_later(wall: datetime, months: int) -> datetime:
    """As many months later; a day that the month does not have becomes its last one."""
    years, index = divmod(wall.month - 1 + months, 12)
    year, month = wall.year + years, index + 1
    return wall.replace(year=year, month=month, day=min(wall.day, monthrange(year, month)[1]))


def held(instant: datetime) -> datetime:
    """In UTC, and moved between `EARLIEST` and `LATEST` where it is beyond them."""
    roughly = instant.replace(tzinfo=UTC)
    return instant.astimezone(UTC) if EARLIEST < roughly < LATEST else min(max(roughly, EARLIEST), LATEST)


def moments(timetable: Cron | Dates) -> Moments:
    """Those that need no anchor."""
    return CronMoments(timetable) if isinstance(timetable, Cron) else DateMoments(_sorted(timetable))


@lru_cache(maxsize=1024)
def _sorted(dates: Dates) -> tuple[datetime, ...]:
    return tuple(sorted({date.astimezone(UTC) for date in dates.dates}))
