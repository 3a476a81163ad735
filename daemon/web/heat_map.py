"""The days of a year as a calendar: a column for each week, and a colour for each day."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from msgspec import Struct

from tidegate.daemon.web.rendering import MARKS, colour, state_word

WORST = ("failed", "retry", "open", "running", "queued", "cancelled", "skipped", "success")
"""The states from the worst to the best. A day shows the worst one of its dates and runs."""

PITCH = 14
"""The distance of two squares."""

LEFT, TOP = 26, 16
"""The place of the names of weekdays, and of months."""

WEEKDAYS = {0: "Mon", 2: "Wed", 4: "Fri"}
LINE = 10
"""The height of a line of text."""


class Square(Struct, frozen=True):
    """Where a square is drawn, its colour, and the mark in it. A mark is drawn where it is needed to tell the colour."""

    x: float
    y: float
    colour: str
    mark: str

    side: int = 11

    @property
    def mark_x(self) -> float:
        return self.x + self.side / 2

    @property
    def mark_y(self) -> float:
        return self.y + 8.5


class Day(Struct, frozen=True):
    """A day with its square, the worst state of its dates, and the dates in words. A day without a date has no state."""

    day: date
    square: Square
    state: str
    text: str


class HeatMap(Struct, frozen=True):
    """A year. `months` are names, each with the place of its first week, `weekdays` each with the place of its row.

    `older` and `newer`: the years that have days, too.
    """

    year: int
    days: Sequence[Day]
    months: Sequence[tuple[int, str]]
    width: int
    older: int | None
    newer: int | None
    weekdays: Sequence[tuple[int, str]] = tuple((TOP + row * PITCH + LINE, name) for row, name in WEEKDAYS.items())
    months_y: int = LINE
    height: int = TOP + 7 * PITCH + 2


def square(state: str, week: int = 0, weekday: int = 0, left: int = 0, top: int = 0) -> Square:
    """The square of a state; that of a legend stands by itself. Its edges are between two pixels."""
    shown = colour(state) if state else "none"
    return Square(left + week * PITCH + 0.5, top + weekday * PITCH + 0.5, shown, MARKS[shown] if shown == "bad" else "")


def legend(*states: str, **words: str) -> tuple[tuple[str, Square], ...]:
    """States with their squares; `words` are states in other words than usual."""
    texts = {**{state: state_word(state) for state in states}, **words}
    return tuple((word, square(state)) for state, word in texts.items())


def heat_map(
    year: int, first: date, last: date, counts: Mapping[date, Mapping[str, int]], empty: str = "no date is planned"
) -> HeatMap:
    """The days of the year from `first` to `last`. `counts` are dates by day and state; `empty` is the text of a day without."""
    begin, end = max(first, date(year, 1, 1)), min(last, date(year, 12, 31))
    shown = [begin + timedelta(days=number) for number in range(max((end - begin).days + 1, 0))]
    days = [_day(day, begin, counts.get(day, {}), empty) for day in shown]
    weeks = [_week(day, begin) for day in shown]
    months = [(LEFT + week * PITCH, f"{day:%b}") for day, week in zip(shown, weeks, strict=True) if day.day == 1 or day == begin]
    width = LEFT + (max(weeks, default=0) + 2) * PITCH
    older, newer = year - 1 if first.year < year else None, year + 1 if last.year > year else None
    return HeatMap(year, days, _apart(months), width, older, newer)


def _day(day: date, begin: date, counts: Mapping[str, int], empty: str) -> Day:
    state = next((state for state in WORST if counts.get(state)), "")
    text = ", ".join(f"{counts[state]} {state}" for state in WORST if counts.get(state)) or empty
    return Day(day, square(state, _week(day, begin), day.weekday(), LEFT, TOP), state, text)


def _week(day: date, begin: date) -> int:
    """The column of a day."""
    return ((day - begin).days + begin.weekday()) // 7


def _apart(months: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the names that would be written over the one before."""
    kept: list[tuple[int, str]] = []
    for place, name in months:
        if not kept or place - kept[-1][0] >= 2 * PITCH:
            kept.append((place, name))
    return kept
