"""Lists of planned runs."""

from datetime import datetime
from itertools import islice

import pytest
from msgspec.structs import replace

from tests.unit.schemas.timetable.given import HOUR, catchup, cron, fired, period, utc
from tidegate.schemas.timetable.spec import Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import UNBOUND, Bounds, Missed, Tick, runs_after

HOURLY = cron("0 * * * *")
EVERY_HOUR = Every(seconds=HOUR, mode="interval")
HOURLY_PERIODS = cron("0 * * * *", mode="interval")


def next_runs(timetable: Timetable | None, count: int, after: datetime, bounds: Bounds = UNBOUND) -> list[Tick]:
    """The first few of them."""
    return list(islice(runs_after(timetable, after, bounds), count))


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


@pytest.mark.parametrize("missed", ["skip", "latest"])
@pytest.mark.parametrize("timetable", [HOURLY, HOURLY_PERIODS, Every(seconds=HOUR), EVERY_HOUR, Dates((utc("2024-08-16"),))])
@pytest.mark.parametrize("after", ["2024-08-15 10:00", "2024-08-15 10:00:30", "2024-08-15 10:20"])
def test_each_policy_for_missed_ticks_lists_the_same(timetable: Timetable, missed: Missed, after: str) -> None:
    bounds = catchup("2024-01-01 00:05")

    found = next_runs(timetable, 3, utc(after), replace(bounds, missed=missed))

    assert found == next_runs(timetable, 3, utc(after), bounds) != []


def test_what_runs_once_is_listed_while_it_is_to_come() -> None:
    bounds = catchup("2024-08-16")

    assert next_runs(Once(), 5, utc("2024-08-15"), bounds) == [fired("2024-08-16")]
    assert next_runs(Once(), 5, utc("2024-08-16"), bounds) == []
    assert next_runs(None, 5, utc("2024-08-15"), bounds) == []
