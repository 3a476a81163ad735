"""Cron expressions on a naive wall clock: the next and the previous match.

croniter parses an expression. The search is done here on sorted tuples, because croniter's is too slow for a clock with
thousands of schedules. If the day of month and the day of week are both restricted, either one matches.
"""

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import dropwhile, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from croniter import croniter

FIELDS = ("minute", "hour", "day of month", "month", "day of week", "second")
RANGES = ("0 to 59", "0 to 23", "1 to 31 or L", "1 to 12 or jan to dec", "0 to 7 or sun to sat", "0 to 59")
FULL = (range(60), range(24), range(1, 32), range(1, 13), range(7), range(60))
HORIZON_YEARS = 41
"""A fifth Monday in February comes within 40 years; an expression without a match in this time never matches."""

PRESETS: Mapping[str, str] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Names of cron expressions."""

_RANDOM = re.compile(r"[hr](\(.*|/.*)?")
_EXAMPLE = "write five fields (minute, hour, day of month, month, day of week) such as '0 3 * * *', or six with the seconds last"

Column = tuple[int, ...]
Ordinals = frozenset[tuple[int, int | None]]


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """A parsed cron expression. `numbers` and `weekdays` are None for an unrestricted field; Sunday is 0.

    `times`: hours, minutes and seconds. `nearest`: days of the month given with W. `ordinals`: weekdays given with # or L, as the
    weekday and its number in the month, None for the last.
    """

    times: tuple[Column, Column, Column]
    months: frozenset[int]
    numbers: frozenset[int] | None
    last_day: bool
    nearest: frozenset[int]
    weekdays: frozenset[int] | None
    ordinals: Ordinals

    @property
    def every_hour(self) -> bool:
        """Whether it matches in every hour of its days."""
        return len(self.times[0]) == 24

    def after(self, wall: datetime) -> datetime | None:
        """The first match after `wall`; None without one in `HORIZON_YEARS`."""
        start = wall + timedelta(seconds=1)
        days = month_days(self, start.year, start.month)
        if start.day in days and (time := _ceiling(self.times, (start.hour, start.minute, start.second))):
            return _at(start.year, start.month, start.day, time)
        first = tuple(column[0] for column in self.times)
        index = bisect_right(days, start.day)
        if index < len(days):
            return _at(start.year, start.month, days[index], first)
        month = _matching_month(self, *_step(start.year, start.month, 1), 1)
        return month and _at(*month, month_days(self, *month)[0], first)

    def until(self, wall: datetime) -> datetime | None:
        """The last match up to `wall`; None without one in `HORIZON_YEARS`."""
        days = month_days(self, wall.year, wall.month)
        if wall.day in days and (time := _floor(self.times, (wall.hour, wall.minute, wall.second))):
            return _at(wall.year, wall.month, wall.day, time)
        last = tuple(column[-1] for column in self.times)
        index = bisect_left(days, wall.day)
        if index:
            return _at(wall.year, wall.month, days[index - 1], last)
        month = _matching_month(self, *_step(wall.year, wall.month, -1), -1)
        return month and _at(*month, month_days(self, *month)[-1], last)

    def beside(self, wall: datetime, *, is_reverse: bool) -> Iterator[datetime]:
        """All matches after `wall`, or before it, the nearest first. A match takes a tenth of the time of a search."""
        direction = -1 if is_reverse else 1
        columns = [column[::direction] for column in self.times]
        found = (_at(*month, day, time) for month, day in self._days_from(wall, direction) for time in product(*columns))
        return dropwhile(wall.__le__ if is_reverse else wall.__ge__, found)

    def _days_from(self, wall: datetime, direction: int) -> Iterator[tuple[tuple[int, int], int]]:
        """The matching days from that of `wall` on, each with its month."""
        this = wall.year, wall.month
        yield from ((this, day) for day in month_days(self, *this)[::direction] if (day - wall.day) * direction >= 0)
        month = _matching_month(self, *_step(*this, direction), direction)
        while month is not None:
            for day in month_days(self, *month)[::direction]:
                yield month, day
            month = _matching_month(self, *_step(*month, direction), direction)


@lru_cache(maxsize=8192)
def compiled(expression: str) -> Expression:
    """Parse an expression. Raises ValueError with one sentence that names the invalid field."""
    fields = expression.lower().split()
    if expression.strip().startswith("@"):
        presets = f"{', '.join(PRESETS)}, or, as a whole schedule, @once and @continuous"
        raise ValueError(f"cron {expression!r} is not known; {_EXAMPLE}, or one of {presets}")
    if len(fields) not in (5, 6):
        raise ValueError(f"cron {expression!r} has {len(fields)} fields; {_EXAMPLE}")
    for position, field in enumerate(fields):
        if not _is_valid(position, field):
            allowed = f"*, {RANGES[position]}, a range a-b, a list a,b or a step */n"
            raise ValueError(f"cron {expression!r}: the {FIELDS[position]} cannot be {field!r}; write {allowed}")
    # Its import takes 25 ms, which `tidegate --help` and publishers do without.
    from croniter import croniter  # noqa: PLC0415 - as above

    return _expression(croniter(" ".join(fields), 0))


def _at(year: int, month: int, day: int, time: Column) -> datetime:
    return datetime(year, month, day, time[0], time[1], time[2])  # noqa: DTZ001 - a wall clock has no zone


def _is_valid(position: int, field: str) -> bool:
    if _RANDOM.fullmatch(field):
        return False
    from croniter import CroniterError, croniter  # noqa: PLC0415 - as in `compiled`

    alone = ["*"] * len(FIELDS)
    alone[position] = field
    try:
        croniter.expand(" ".join(alone))
    except (CroniterError, ValueError):
        return False
    return True


def _expression(parsed: "croniter[float]") -> Expression:
    columns: Sequence[Sequence[object]] = parsed.expanded
    minutes, hours, numbers, months, weekdays = (_numbers(columns, position) for position in range(5))
    seconds = _numbers(columns, 5) if len(columns) > 5 else (0,)
    free = _free(columns[2])
    ordinals = _ordinals(parsed.nth_weekday_of_month.items())
    return Expression(
        times=(hours, minutes, seconds),
        months=frozenset(months),
        numbers=None if free else frozenset(numbers) - parsed.nearest_weekday,
        last_day="l" in (*columns[2],),
        nearest=frozenset(parsed.nearest_weekday),
        weekdays=None if _free(columns[4]) and not ordinals else frozenset(() if ordinals else weekdays),
        ordinals=ordinals,
    )


def _ordinals(weekdays: Iterable[tuple[object, Iterable[object]]]) -> Ordinals:
    pairs = ((day, nth) for day, which in weekdays if isinstance(day, int) for nth in which)
    return frozenset((day, nth if isinstance(nth, int) else None) for day, nth in pairs)


def _free(column: Sequence[object]) -> bool:
    return "*" in column


def _numbers(columns: Sequence[Sequence[object]], position: int) -> Column:
    if _free(columns[position]):
        return tuple(FULL[position])
    return tuple(sorted(item for item in columns[position] if isinstance(item, int)))


@lru_cache(maxsize=65536)
def month_days(expression: Expression, year: int, month: int) -> Column:
    """The matching days of a month, in order."""
    if month not in expression.months:
        return ()
    before, length = monthrange(year, month)
    weekdays = {day: (before + day) % 7 for day in range(1, length + 1)}
    if expression.numbers is None and expression.weekdays is None:
        return tuple(weekdays)
    return tuple(sorted(_by_number(expression, weekdays) | _by_weekday(expression, weekdays)))


def _by_number(expression: Expression, weekdays: Mapping[int, int]) -> set[int]:
    """`weekdays` has the weekday of each day of the month, 0 for Sunday."""
    length = len(weekdays)
    days = {day for day in expression.numbers or () if day <= length}
    days |= {length} if expression.last_day else set()
    return days | {_working_day(min(day, length), weekdays) for day in expression.nearest}


def _by_weekday(expression: Expression, weekdays: Mapping[int, int]) -> set[int]:
    wanted, ordinals = expression.weekdays or frozenset(), expression.ordinals
    return {
        day
        for day, weekday in weekdays.items()
        if weekday in wanted or (weekday, (day + 6) // 7) in ordinals or (day + 7 > len(weekdays) and (weekday, None) in ordinals)
    }


def _working_day(day: int, weekdays: Mapping[int, int]) -> int:
    """The working day nearest to a day, in the same month."""
    if weekdays[day] == 6:
        return day - 1 if day > 1 else day + 2
    if weekdays[day] == 0:
        return day + 1 if day < len(weekdays) else day - 2
    return day


@lru_cache(maxsize=65536)
def _matching_month(expression: Expression, year: int, month: int, direction: int) -> tuple[int, int] | None:
    """The first month with a match, from `month` on, forwards or backwards."""
    for _ in range(12 * HORIZON_YEARS):
        if month in expression.months and month_days(expression, year, month):
            return year, month
        year, month = _step(year, month, direction)
    return None


def _step(year: int, month: int, direction: int) -> tuple[int, int]:
    years, index = divmod(month - 1 + direction, 12)
    return year + years, index + 1


def _ceiling(columns: tuple[Column, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The smallest combination of one value per column that is at least `wanted`."""
    column = columns[0]
    index = bisect_left(column, wanted[0])
    if index < len(column) and column[index] == wanted[0]:
        tail = _ceiling(columns[1:], wanted[1:]) if len(columns) > 1 else ()
        if tail is not None:
            return (wanted[0], *tail)
        index += 1
    return (column[index], *(other[0] for other in columns[1:])) if index < len(column) else None


def _floor(columns: tuple[Column, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The largest combination of one value per column that is at most `wanted`."""
    column = columns[0]
    index = bisect_right(column, wanted[0]) - 1
    if index >= 0 and column[index] == wanted[0]:
        tail = _floor(columns[1:], wanted[1:]) if len(columns) > 1 else ()
        if tail is not None:
            return (wanted[0], *tail)
        index -= 1
    return (column[index], *(other[-1] for other in columns[1:])) if index >= 0 else None
