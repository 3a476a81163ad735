"""Runs that are planned, listed ahead, and which dates are on schedule."""

import pytest

from tests.unit.timetable.given import DAY, HOUR, catchup, cron, fired, period, utc
from tidegate.schemas.tick import next_runs, on_schedule
from tidegate.schemas.timetable import Continuous, Dates, Every, Once, Timetable

DAILY = cron("0 3 * * *")
HOURLY = cron("0 * * * *")
EVERY_HOUR = Every(seconds=HOUR, mode="interval")
HOURLY_PERIODS = cron("0 * * * *", mode="interval")


def test_the_next_runs_are_listed_without_regard_to_what_was_missed() -> None:
    after = utc("2024-08-15 10:20")

    assert next_runs(HOURLY, 2, after) == [fired("2024-08-15 11:00"), fired("2024-08-15 12:00")]
    assert next_runs(HOURLY_PERIODS, 1, after) == [period("2024-08-15 10:00", "2024-08-15 11:00")]
    assert next_runs(Every(seconds=HOUR), 1, after) == [fired("2024-08-15 11:20")]
    assert next_runs(EVERY_HOUR, 1, after) == [period("2024-08-15 10:20", "2024-08-15 11:20")]
    assert next_runs(EVERY_HOUR, 1, after, catchup("2024-01-01 00:05")) == [period("2024-08-15 10:05", "2024-08-15 11:05")]
    assert next_runs(Dates((utc("2024-08-16"),)), 5, after) == [fired("2024-08-16")]
    assert next_runs(HOURLY, 1, after, catchup("2024-09-01")) == [fired("2024-09-01")]
    assert next_runs(HOURLY, 5, after, catchup(end="2024-08-15 12:00")) == [fired("2024-08-15 11:00"), fired("2024-08-15 12:00")]


def test_what_runs_once_is_listed_while_it_is_to_come() -> None:
    bounds = catchup("2024-08-16")

    assert next_runs(Once(), 5, utc("2024-08-15"), bounds) == [fired("2024-08-16")]
    assert next_runs(Once(), 5, utc("2024-08-16"), bounds) == []
    assert next_runs(None, 5, utc("2024-08-15"), bounds) == []


@pytest.mark.parametrize(
    ("timetable", "on", "off"),
    [
        pytest.param(cron("30 2 * * *", zone="Europe/Zurich"), "2023-03-26 01:30", "2023-03-26 00:30", id="cron"),
        pytest.param(cron("0 3 * * *", mode="interval"), "2024-08-15 03:00", "2024-08-15 04:00", id="interval"),
        pytest.param(cron("0 3 * * *", interval_s=HOUR), "2024-08-15 02:00", "2024-08-15 03:00", id="interval-before"),
        pytest.param(Every(seconds=7 * DAY), "2020-01-08", "2020-01-09", id="delta"),
        pytest.param(Every(months=1), "2020-02-01", "2020-02-02", id="months"),
        pytest.param(Dates((utc("2024-08-15"),)), "2024-08-15", "2024-08-16", id="dates"),
        pytest.param(Once(), "2020-01-01", "2020-01-02", id="once"),
    ],
)
def test_a_date_is_on_schedule_or_not(timetable: Timetable, on: str, off: str) -> None:
    bounds = catchup("2020-01-01")

    assert on_schedule(timetable, utc(on), bounds)
    assert not on_schedule(timetable, utc(off), bounds)


def test_no_date_outside_the_bounds_is_on_schedule() -> None:
    bounds = catchup("2024-08-15 03:00", "2024-08-16 03:00")

    dates = [utc(f"2024-08-{day} 03:00") for day in (14, 15, 16, 17)]

    assert [on_schedule(DAILY, date, bounds) for date in dates] == [False, True, True, False]


def test_what_has_no_dates_is_never_on_schedule() -> None:
    assert not on_schedule(None, utc("2024-08-15"))
    assert not on_schedule(Continuous(), utc("2024-08-15"))
