"""The serialised shapes of timetables and their validation. Durations are in seconds.

`tidegate.schemas.timetable.tick` computes runs from them.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidegate.schemas.text import counted
from tidegate.schemas.time_range import Moment, in_range
from tidegate.schemas.timetable.cron import PRESETS, compiled
from tidegate.schemas.timetable.wallclock import zone

Mode = Literal["trigger", "interval"]
"""`trigger`: a run starts at the tick. `interval`: it starts at the end of the period that the tick begins."""

SHORTEST_S = 0.001
LONGEST_S = 100 * 366 * 86400.0
MONTH_S = 366 * 86400 // 12
UNITS = ((86400, "d"), (3600, "h"), (60, "min"))

NonNegative = Annotated[float, Meta(ge=0)]


class Cron(msgspec.Struct, frozen=True, tag="cron", tag_field="kind", forbid_unknown_fields=True):
    """The ticks of all `expressions` (5 fields, or 6 with the seconds last) on the wall clock of `timezone`.

    `interval_s` is for trigger mode: the length of the data interval that ends at the tick.
    """

    expressions: Annotated[tuple[str, ...], Meta(min_length=1)]
    timezone: str = "UTC"
    mode: Mode = "trigger"
    interval_s: NonNegative = 0.0


class Every(msgspec.Struct, frozen=True, tag="every", tag_field="kind", forbid_unknown_fields=True):
    """A tick `months` of the calendar of `timezone` and then `seconds` of real time after the one before.

    A day that the month does not have becomes its last day, and stays: 31 January, 28 February, 28 March.
    `interval_s` is for trigger mode: the length of the data interval that ends at the tick.
    """

    months: int = 0
    seconds: float = 0.0
    timezone: str = "UTC"
    mode: Mode = "trigger"
    interval_s: NonNegative = 0.0


class Dates(msgspec.Struct, frozen=True, tag="dates", tag_field="kind", forbid_unknown_fields=True):
    """A tick at each of `dates`, in any order; a repeated date counts once."""

    dates: Annotated[tuple[Moment, ...], Meta(min_length=1)]


class Once(msgspec.Struct, frozen=True, tag="once", tag_field="kind", forbid_unknown_fields=True):
    """One run, at the start date, or at once without one."""


class Continuous(msgspec.Struct, frozen=True, tag="continuous", tag_field="kind", forbid_unknown_fields=True):
    """A run as soon as the previous one has ended; its data interval begins where the previous one's ends, and ends now."""


Timetable = Cron | Every | Dates | Once | Continuous


def validate(timetable: Timetable) -> None:
    """Raises ValueError with one sentence: what is invalid and what to write instead."""
    match timetable:
        case Cron():
            _validate_cron(timetable)
        case Every():
            _validate_every(timetable)
        case Dates(dates):
            _validate_dates(dates)
        case Once() | Continuous():
            pass


def named(schedule: str, timezone: str = "UTC", mode: Mode = "trigger") -> Timetable:
    """The timetable of a preset such as `@daily` or `@once`, or of a cron expression. Raises ValueError."""
    match schedule.strip():
        case "@once":
            return Once()
        case "@continuous":
            return Continuous()
        case expression:
            timetable = Cron((PRESETS.get(expression, expression),), timezone, mode)
            validate(timetable)
            return timetable


def describe(timetable: Timetable | None) -> str:
    """A timetable in one line for people."""
    match timetable:
        case None:
            return "never by time"
        case Cron():
            return f"cron {', '.join(timetable.expressions)} {timetable.timezone}{_mode(timetable)}"
        case Every():
            return f"every {_length(timetable)}{_mode(timetable)}"
        case Dates((date,)):
            return f"on {date.isoformat(' ')}"
        case Dates(dates):
            return f"on {len(dates)} dates from {min(dates).isoformat(' ')} to {max(dates).isoformat(' ')}"
        case Once():
            return "once"
        case Continuous():
            return "continuously"


def _validate_cron(cron: Cron) -> None:
    if not cron.expressions:
        raise ValueError("a cron timetable needs at least one expression, such as '0 3 * * *'")
    for expression in cron.expressions:
        compiled(expression)
    zone(cron.timezone)
    _validate_interval(cron)


def _validate_every(every: Every) -> None:
    if every.months < 0 or every.seconds < 0 or not (every.months or every.seconds):
        raise ValueError(f"the time between two runs must be longer than 0, and no part of it negative, not {_length(every)}")
    if not every.months and every.seconds < SHORTEST_S:
        raise ValueError(f"the time between two runs must be at least {SHORTEST_S:g} s, not {every.seconds:g} s")
    if not every.months * MONTH_S <= LONGEST_S - every.seconds:  # no float has very many months
        raise ValueError(f"the time between two runs must be at most 100 years, not {_length(every)}")
    zone(every.timezone)
    _validate_interval(every)


def _validate_interval(timetable: Cron | Every) -> None:
    if not 0 <= timetable.interval_s <= LONGEST_S:
        raise ValueError(f"the data interval of a run must be from 0 to 100 years long, not {timetable.interval_s:g} s")
    if timetable.interval_s and timetable.mode == "interval":
        raise ValueError(
            "in interval mode the data interval is the time between two ticks; leave out interval, or use trigger mode"
        )


def _validate_dates(dates: tuple[datetime, ...]) -> None:
    if not dates:
        raise ValueError("a list of dates needs at least one date; write None for a DAG that never runs by time")
    for date in dates:
        if date.tzinfo is None:
            raise ValueError(
                f"the date {date.isoformat(' ')} has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Zurich'))"
            )
        in_range("the date", date)


def _mode(timetable: Cron | Every) -> str:
    return " by interval" if timetable.mode == "interval" else ""


def _length(every: Every) -> str:
    months, seconds = every.months, every.seconds
    parts = [_calendar_length(months)] if months else []
    if seconds or not months:
        size, unit = next(((size, unit) for size, unit in UNITS if seconds and seconds % size == 0), (1, "s"))
        parts.append(f"{seconds / size:g} {unit}")
    return " and ".join(parts)


def _calendar_length(months: int) -> str:
    return counted(months // 12, "year", "years") if months % 12 == 0 else counted(months, "month", "months")
