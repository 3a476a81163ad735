"""The rolling report of the example pipelines, and its table."""

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import zip_longest
from pathlib import Path

import msgspec
from rich import box
from rich.table import Table

from tidegate.daemon.standalone.example import nycflights
from tidegate.daemon.standalone.example.lake import RESULT
from tidegate.schemas.error import RequestError

FIRST_WEEK = tuple(nycflights.FIRST + timedelta(days=number) for number in range(7))

HEADERS = ("Day", "Flights", "Cancelled", "Delay", "90 %", "Late", "7 days", "Worst", "Wind", "In wind")
CAPTION = (
    "Delay at departure in minutes: the mean, what 90 % stay below, the share of more than 15, the mean of the last seven days,"
    " and the carrier with the largest mean. Wind in miles per hour, and the mean delay in 15 and more."
)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Departure delays of a group of flights in minutes. `late_share`: the share of departures that were over 15 minutes late.

    None: no flight departed.
    """

    flights: int
    cancelled: int
    mean_delay: float | None = None
    p90_delay: float | None = None
    late_share: float | None = None


class Day(Figures, frozen=True, kw_only=True):
    """A day, with the wind at departure in miles per hour.

    `windy_delay` is the mean delay of departures in a wind of 15 or more, `worst_delay` the largest mean delay of a carrier
    with at least ten departures, and `mean_delay_7d` the mean delay of the seven days up to this one.
    """

    day: date
    mean_wind: float | None = None
    windy_delay: float | None = None
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
    """The newest report; None before the first one. Raises RequestError for a file that is no rolling report."""
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
    shown = Table(title="Flights leaving New York", caption=CAPTION, caption_justify="left", box=box.SIMPLE, show_footer=True)
    shown.pad_edge, shown.collapse_padding = False, True
    report = read(lake)
    footers = ("Total", *_figures(report.totals)) if report else ()
    for header, footer in zip_longest(HEADERS, footers, fillvalue=""):
        shown.add_column(header, footer, justify="left" if header == "Day" else "right", no_wrap=True)
    for day in report.days if report else ():
        worst = f"{day.worst_carrier} {_number(day.worst_delay)}" if day.worst_carrier else "-"
        shown.add_row(
            f"{day.day:%d %b}",
            *_figures(day),
            _number(day.mean_delay_7d),
            worst,
            _number(day.mean_wind),
            _number(day.windy_delay),
        )
    return shown


def _figures(figures: Figures) -> tuple[str, ...]:
    share = "-" if figures.late_share is None else f"{figures.late_share:.0%}"
    return f"{figures.flights:,}", str(figures.cancelled), _number(figures.mean_delay), _number(figures.p90_delay), share


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
