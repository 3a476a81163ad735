"""What the pipelines found out, read from the rolling report, as the table that is shown when a week is over."""

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import zip_longest
from pathlib import Path

import msgspec
from rich.table import Table

from tidegate.daemon.standalone.example import nycflights
from tidegate.daemon.standalone.example.lake import RESULT
from tidegate.schemas.error import RequestError

FIRST_WEEK = tuple(nycflights.FIRST + timedelta(days=number) for number in range(7))

HEADERS = (
    "Day",
    "Flights",
    "Cancelled",
    "Mean delay",
    "90 % below",
    "Late (> 15)",
    "7-day mean",
    "Latest carrier",
    "Wind, mph",
    "Wet hours",
)
LEFT = ("Day", "Latest carrier")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of some flights: delays at departure in minutes, `late_share` the part of those departed that left over 15 minutes late.

    None where no flight left.
    """

    flights: int
    cancelled: int
    mean_delay: float | None = None
    p90_delay: float | None = None
    late_share: float | None = None


class Day(Figures, frozen=True, kw_only=True):
    """A day: also its weather at departure, in miles per hour and hours with rain at an airport, and its latest carrier.

    `mean_delay_7d` is over the seven days up to this one.
    """

    day: date
    mean_wind: float | None = None
    wet_hours: int
    worst_carrier: str | None = None
    worst_delay: float | None = None
    mean_delay_7d: float | None = None


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """A carrier in the last seven days."""

    carrier: str
    flights: int
    mean_delay_7d: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The rolling report: days in order."""

    days: tuple[Day, ...]
    carriers: tuple[Carrier, ...]
    totals: Figures


_DECODER = msgspec.json.Decoder(Report)


def read(lake: Path) -> Report | None:
    """The newest report, None before the first one. Raises RequestError when it is not what this version understands."""
    path = lake / RESULT
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise RequestError(f"{path} is not a rolling report: {error}; delete it, and new data will make it anew") from error


def week_is_done(lake: Path, days: Iterable[date] = FIRST_WEEK) -> bool:
    """Whether the report has all of the days. Raises RequestError as `read` does."""
    report = read(lake)
    return report is not None and {day.day for day in report.days}.issuperset(days)


def table(lake: Path) -> Table:
    """A row for each day in the report, the totals below them. Raises RequestError as `read` does."""
    shown = Table(title="Flights leaving New York, delays in minutes", show_footer=True)
    report = read(lake)
    footers = ("", *_figures(report.totals)) if report else ()
    for header, footer in zip_longest(HEADERS, footers, fillvalue=""):
        shown.add_column(header, footer, justify="left" if header in LEFT else "right")
    for day in report.days if report else ():
        worst = f"{day.worst_carrier} {_number(day.worst_delay)}" if day.worst_carrier else "-"
        shown.add_row(
            f"{day.day:%a %d %b}", *_figures(day), _number(day.mean_delay_7d), worst, _number(day.mean_wind), str(day.wet_hours)
        )
    return shown


def _figures(figures: Figures) -> tuple[str, ...]:
    share = "-" if figures.late_share is None else f"{figures.late_share:.0%}"
    return f"{figures.flights:,}", str(figures.cancelled), _number(figures.mean_delay), _number(figures.p90_delay), share


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
