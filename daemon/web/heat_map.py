"""The days of a year as a calendar: a column for each week, and a colour for each day."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from msgspec import Struct

WORST = ("failed", "retry", "open", "running", "queued", "cancelled", "skipped", "success")
"""The states from the worst to the best. A day shows the worst one of its dates and runs."""

PITCH = 14
"""The distance of two cells."""


class Day(Struct, frozen=True):
    """A day, where it is drawn, the worst state of its dates, and the dates in words. A day without a date has no state."""

    day: date
    x: int
    y: int
    state: str
    text: str


class HeatMap(Struct, frozen=True):
    """A year. `months` are names, each with the place of its first week. `older` and `newer`: the years that have days, too."""

    year: int
    days: Sequence[Day]
    months: Sequence[tuple[int, str]]
    width: int
    older: int | None
    newer: int | None


def heat_map(
    year: int, first: date, last: date, counts: Mapping[date, Mapping[str, int]], empty: str = "no date is planned"
) -> HeatMap:
    """The days of the year from `first` to `last`. `counts` are dates by day and state; `empty` is the text of a day without."""
    begin, end = max(first, date(year, 1, 1)), min(last, date(year, 12, 31))
    shown = [begin + timedelta(days=number) for number in range(max((end - begin).days + 1, 0))]
    days = [_day(day, begin, counts.get(day, {}), empty) for day in shown]
    months = [(found.x, f"{found.day:%b}") for found in days if found.day.day == 1 or found.day == begin]
    width = max((found.x for found in days), default=0) + 2 * PITCH
    older, newer = year - 1 if first.year < year else None, year + 1 if last.year > year else None
    return HeatMap(year, days, _apart(months), width, older, newer)


def _day(day: date, begin: date, counts: Mapping[str, int], empty: str) -> Day:
    week = ((day - begin).days + begin.weekday()) // 7
    state = next((state for state in WORST if counts.get(state)), "")
    text = ", ".join(f"{counts[state]} {state}" for state in WORST if counts.get(state)) or empty
    return Day(day, week * PITCH, day.weekday() * PITCH, state, text)


def _apart(months: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without the names that would be written over the one before."""
    kept: list[tuple[int, str]] = []
    for place, name in months:
        if not kept or place - kept[-1][0] >= 2 * PITCH:
            kept.append((place, name))
    return kept
