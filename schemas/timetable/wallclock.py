"""Wall clocks and real time: where a time zone's clocks are put forward or back, and what that does to a cron expression.

Between two changes a zone has one offset. Such a stretch owns a range of wall clock times, and the ranges of all stretches
together decide when a time of day comes: one that does not exist belongs to the stretch before the change (and comes that
much later), one that comes twice to the stretch after it, or to both for a cron that fires in every hour.
Instants are naive and in UTC here, wall clock times are naive too.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tidegate.schemas.timetable.cron import Expression

SECOND = timedelta(seconds=1)
NONE = timedelta()
DAY = timedelta(days=1)


class Stretch(NamedTuple):
    """Real time from `start` to `end`, while the clocks are `offset` ahead of UTC; `next_offset` is that after it."""

    start: datetime
    end: datetime
    before: timedelta
    offset: timedelta
    after: timedelta

    @property
    def opens(self) -> datetime:
        """The first wall clock time it owns."""
        return self.start + self.offset

    def closes(self, *, every_hour: bool) -> datetime:
        """The end of the wall clock times it owns."""
        return self.end + (max(self.offset, self.after) if every_hour else self.after)

    @property
    def late(self) -> timedelta:
        """How far times of the stretch before reach into this one, because the clocks were put forward."""
        return max(self.offset - self.before, NONE)


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Raises ValueError where there is no such time zone."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"there is no time zone {name!r}; write a name of the tz database, such as 'Europe/Zurich' or 'UTC'"
        ) from error


def after(expression: Expression, clock: str, instant: datetime) -> datetime | None:
    """The first instant later than `instant` at which the expression fires on the wall clock of the zone `clock`."""
    best: datetime | None = None
    every_hour = expression.every_hour
    for stretch in _onwards(clock, instant):
        if best is not None and best <= stretch.start:
            return best
        wall = expression.after(max(instant + stretch.offset, stretch.opens - SECOND))
        if wall is None:
            break
        if wall < stretch.closes(every_hour=every_hour):
            fires = wall - stretch.offset
            best = fires if best is None else min(best, fires)
    return best


def until(expression: Expression, clock: str, instant: datetime) -> datetime | None:
    """The last instant not later than `instant` at which the expression fires on the wall clock of the zone `clock`."""
    best: datetime | None = None
    every_hour = expression.every_hour
    for stretch in _backwards(clock, instant):
        wall = expression.until(min(instant + stretch.offset, stretch.closes(every_hour=every_hour) - SECOND))
        if wall is None:
            break
        if wall >= stretch.opens:
            fires = wall - stretch.offset
            best = fires if best is None else max(best, fires)
        if best is not None and best >= stretch.start + stretch.late:
            return best
    return best


def local(instant: datetime, clock: str) -> datetime:
    """What the clocks show at an instant that has a zone."""
    return instant.astimezone(zone(clock)).replace(tzinfo=None)


def instant(wall: datetime, clock: str) -> datetime:
    """When the clocks show a wall clock time: that much later where they skip it, the second time where they show it twice."""
    info = zone(clock)
    offsets = (info.utcoffset(wall.replace(fold=fold)) or NONE for fold in (0, 1))
    return (wall - min(offsets)).replace(tzinfo=UTC)


def _onwards(clock: str, instant: datetime) -> Iterator[Stretch]:
    """The stretches that decide what comes after an instant, in order."""
    year = instant.year
    here = stretches(clock, year)
    index = bisect_right(here, instant, key=_start) - 1
    if instant < here[index].start + here[index].late:
        yield here[index - 1] if index else stretches(clock, year - 1)[-1]
    yield from here[index:]
    while True:
        year += 1
        yield from stretches(clock, year)


def _backwards(clock: str, instant: datetime) -> Iterator[Stretch]:
    year = instant.year
    here = stretches(clock, year)
    yield from reversed(here[: bisect_right(here, instant, key=_start)])
    while True:
        year -= 1
        yield from reversed(stretches(clock, year))


def _start(stretch: Stretch) -> datetime:
    return stretch.start


@lru_cache(maxsize=8192)
def stretches(clock: str, year: int) -> tuple[Stretch, ...]:
    """Those that begin in a year (UTC), the first of them with the year itself."""
    info = zone(clock)
    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
    starts = [begin, *_changes(info, begin, end), end]
    offsets = [_offset(info, begin - SECOND), *(_offset(info, start) for start in starts)]
    return tuple(
        Stretch(starts[index], starts[index + 1], offsets[index], offsets[index + 1], offsets[index + 2])
        for index in range(len(starts) - 1)
    )


def _changes(info: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The instants strictly between `begin` and `end` at which the clocks change."""
    while begin < end:
        until = min(begin + DAY, end)
        if _offset(info, begin) != _offset(info, until - SECOND):
            yield _change(info, begin, until)
        elif until < end and _offset(info, until - SECOND) != _offset(info, until):
            yield until
        begin = until


def _change(info: ZoneInfo, begin: datetime, end: datetime) -> datetime:
    """The one change between two instants, to the second."""
    offset = _offset(info, begin)
    while end - begin > SECOND:
        middle = (begin + (end - begin) / 2).replace(microsecond=0)
        begin, end = (middle, end) if _offset(info, middle) == offset else (begin, middle)
    return end


def _offset(info: ZoneInfo, instant: datetime) -> timedelta:
    return instant.replace(tzinfo=UTC).astimezone(info).utcoffset() or NONE
