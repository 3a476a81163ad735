"""Where a cron expression fires, found the slow way: walk real time in small steps, look at the clocks, compare the fields.

Written without anything of the product and without croniter, from the rules alone:

* it fires whenever the clocks show a time that matches,
* a time that they show twice counts the second time, unless the expression names every hour,
* a time that they skip counts as much later as they were put forward.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NAMES = {name: number for names, first in ((WEEKDAYS, 0), (MONTHS, 1)) for number, name in enumerate(names, first)}
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6), (0, 59))
MARGIN = timedelta(hours=4)
"""No clock in the tz database has been put forward or back by more since 2012."""


class Matcher:
    """The fields of an expression as sets of numbers."""

    def __init__(self, expression: str) -> None:
        fields = expression.lower().split()
        fields += ["0"] * (6 - len(fields))
        self.minutes, self.hours, self.days, self.months, self.weekdays, self.seconds = (
            numbers(field, *LIMITS[position]) for position, field in enumerate(fields)
        )
        # Beside a `*` or a `*/4` of the other field, a field with all of its numbers says as little as `*`.
        all_days = fields[2] == "*" or ("*" in fields[4] and len(self.days) == 31)
        all_weekdays = fields[4] == "*" or ("*" in fields[2] and len(self.weekdays) == 7)
        self.either = not (all_days or all_weekdays)
        self.last = fields[2] == "l"
        self.every_hour = len(self.hours) == 24

    def day(self, wall: datetime) -> bool:
        by_number = (wall + timedelta(days=1)).day == 1 if self.last else wall.day in self.days
        by_weekday = wall.isoweekday() % 7 in self.weekdays
        return (by_number or by_weekday) if self.either else (by_number and by_weekday)

    def __call__(self, wall: datetime) -> bool:
        time = wall.minute in self.minutes and wall.hour in self.hours and wall.second in self.seconds
        return time and wall.month in self.months and self.day(wall)


def numbers(field: str, low: int, high: int) -> frozenset[int]:
    """What a field of numbers, names, ranges, lists and steps stands for; day 7 of the week is Sunday."""
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if span in ("*", "l"):
            begin, end = low, high
        else:
            begin = number(first)
            end = number(last) if last else high if step else begin
        found |= set(range(begin, end + 1, int(step or 1)))
    return frozenset(0 if value == 7 and high == 6 else value for value in found)


def number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


class Window:
    """Real time from `begin` to `end` (naive, in UTC) in a zone, with what the clocks show at each step of it."""

    def __init__(self, zone: ZoneInfo, begin: datetime, end: datetime, step: timedelta = timedelta(minutes=1)) -> None:
        self.begin, self.end = begin, end
        self._shown = [(at, shown(zone, at)) for at in every(step, begin - MARGIN, end + MARGIN)]
        self._skipped = list(self._find_skipped(step))
        latest = {wall: at for at, wall in self._shown}
        self._last = [(at, wall) for at, wall in self._shown if latest[wall] == at]

    def _find_skipped(self, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
        """The wall clock times that are never shown, with the moments that far after the last one that was."""
        for (at, wall), (_, following) in zip(self._shown, self._shown[1:], strict=False):
            for missing in every(step, wall + step, following):
                yield at + (missing - wall), missing

    def fires(self, expression: str) -> list[datetime]:
        """When the expression fires inside the window, in order."""
        matches = Matcher(expression)
        moments = (self._shown if matches.every_hour else self._last) + self._skipped
        return sorted({at for at, wall in moments if self.begin <= at <= self.end and matches(wall)})


def shown(zone: ZoneInfo, at: datetime) -> datetime:
    """What the clocks show at an instant."""
    return at.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)


def every(step: timedelta, begin: datetime, end: datetime) -> Iterator[datetime]:
    at = begin
    while at < end:
        yield at
        at += step


def changes(zone: ZoneInfo, year: int) -> list[datetime]:
    """The instants in a year at which the clocks of a zone are put forward or back, to the minute (naive, in UTC)."""

    def offset(at: datetime) -> timedelta:
        return shown(zone, at) - at

    found = []
    for begin in every(timedelta(days=1), datetime(year, 1, 1), datetime(year + 1, 1, 1)):  # noqa: DTZ001 - a wall clock
        end = begin + timedelta(days=1)
        if offset(begin) == offset(end):
            continue
        low, high = 0, 24 * 60
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(begin + timedelta(minutes=middle)) == offset(begin) else (low, middle)
        found.append(begin + timedelta(minutes=high))
    return found
