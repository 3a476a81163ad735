"""Which of the ticks that have passed still get a run, and between which dates."""

from datetime import datetime, timedelta, timezone

import pytest

from tests.unit.timetable.given import DAY, HOUR, catchup, chain, cron, fired, hourly, no_catchup, period, utc
from tidegate.schemas.tick import Bounds, Missed, Tick, next_runs, next_tick, on_schedule
from tidegate.schemas.timetable import Continuous, Dates, Every, Once, Timetable

DAILY = cron("0 3 * * *")
HOURLY = cron("0 * * * *")
EVERY_HOUR = Every(seconds=HOUR, mode="interval")
HOURLY_PERIODS = cron("0 * * * *", mode="interval")


def skip(start: str | None = None) -> Bounds:
    return Bounds(start_date=utc(start) if start else None, missed="skip")


@pytest.mark.parametrize(
    ("immediately", "now", "expected"),
    [
        pytest.param(None, "2024-08-15 03:05", "2024-08-15 03:00", id="just-passed"),
        pytest.param(None, "2024-08-15 05:24", "2024-08-15 03:00", id="within-a-tenth"),
        pytest.param(None, "2024-08-15 05:25", "2024-08-16 03:00", id="after-a-tenth"),
        pytest.param(True, "2024-08-15 12:05", "2024-08-15 03:00", id="at-once"),
        pytest.param(False, "2024-08-15 03:05", "2024-08-16 03:00", id="wait"),
        pytest.param(False, "2024-08-15 03:00", "2024-08-15 03:00", id="now"),
    ],
)
@pytest.mark.parametrize("bounds", [no_catchup(), catchup()], ids=["no-catchup", "catchup"])
def test_without_a_start_date_the_first_run_is_the_tick_just_passed_or_the_next(
    bounds: Bounds, now: str, expected: str, *, immediately: bool | None
) -> None:
    bounds = Bounds(missed=bounds.missed, run_immediately=immediately)

    assert next_tick(DAILY, None, bounds, utc(now)) == fired(expected)


def test_a_tick_of_a_short_period_counts_as_just_passed_for_five_minutes() -> None:
    timetable = cron("*/10 3 * * *")

    assert next_tick(timetable, None, no_catchup(), utc("2024-08-15 03:05")) == fired("2024-08-15 03:00")
    assert next_tick(timetable, None, no_catchup(), utc("2024-08-15 03:06")) == fired("2024-08-15 03:10")


@pytest.mark.parametrize(
    ("immediately", "expected"),
    [
        (None, period("2024-08-15 10:00", "2024-08-15 11:00")),
        (True, period("2024-08-15 10:00", "2024-08-15 11:00")),
        (False, period("2024-08-15 11:00", "2024-08-15 12:00")),
    ],
)
@pytest.mark.parametrize("bounds", [no_catchup(), catchup()], ids=["no-catchup", "catchup"])
def test_without_a_start_date_the_first_period_is_the_last_complete_one(
    bounds: Bounds, expected: Tick, *, immediately: bool | None
) -> None:
    bounds = Bounds(missed=bounds.missed, run_immediately=immediately)

    assert next_tick(HOURLY_PERIODS, None, bounds, utc("2024-08-15 11:40")) == expected


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", "2024-08-15 12:00"), ("latest", "2024-08-15 11:00"), ("all", "2024-08-15 06:00")],
)
def test_after_an_outage_the_policy_decides_which_tick_runs(missed: Missed, expected: str) -> None:
    tick = next_tick(HOURLY, fired("2024-08-15 05:00"), Bounds(missed=missed), utc("2024-08-15 11:40"))

    assert tick == fired(expected)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", period("2024-08-15 11:00", "2024-08-15 12:00")),
        ("latest", period("2024-08-15 10:00", "2024-08-15 11:00")),
        ("all", period("2024-08-15 05:00", "2024-08-15 06:00")),
    ],
)
@pytest.mark.parametrize("timetable", hourly("interval"), ids=["cron", "delta"])
def test_after_an_outage_the_policy_decides_which_period_runs(timetable: Timetable, missed: Missed, expected: Tick) -> None:
    tick = next_tick(timetable, period("2024-08-15 04:00", "2024-08-15 05:00"), Bounds(missed=missed), utc("2024-08-15 11:40"))

    assert tick == expected


@pytest.mark.parametrize(
    ("missed", "expected"),
    [("skip", "2024-08-15 12:15"), ("latest", "2024-08-15 11:40"), ("all", "2024-08-15 06:15")],
)
def test_after_an_outage_the_policy_decides_when_a_delta_runs(missed: Missed, expected: str) -> None:
    tick = next_tick(Every(seconds=HOUR), fired("2024-08-15 05:15"), Bounds(missed=missed), utc("2024-08-15 11:40"))

    assert tick == fired(expected)


@pytest.mark.parametrize(
    "timetable", [*hourly("trigger"), *hourly("interval")], ids=["cron", "delta", "periods", "delta-periods"]
)
@pytest.mark.parametrize(("late", "hour"), [(60, 11), (61, 12)])
def test_skip_still_takes_a_tick_of_the_last_minute(timetable: Timetable, late: int, hour: int) -> None:
    now = utc("2024-08-15 11:00") + timedelta(seconds=late)

    tick = next_tick(timetable, period("2024-08-15 04:00", "2024-08-15 05:00"), skip(), now)

    assert tick is not None
    assert tick.run_after.hour == hour


@pytest.mark.parametrize(
    ("now", "expected"), [("2024-08-15 03:01", "2024-08-15 03:00"), ("2024-08-15 03:02", "2024-08-16 03:00")]
)
@pytest.mark.parametrize("start", [None, "2024-01-01"])
def test_skip_takes_no_older_tick_for_a_first_run(start: str | None, now: str, expected: str) -> None:
    assert next_tick(DAILY, None, skip(start), utc(now)) == fired(expected)


def test_catchup_skips_no_tick_and_repeats_none() -> None:
    runs = chain(DAILY, 4, catchup("2024-02-27", "2024-03-01 03:00"))

    assert runs == [fired(f"2024-{day} 03:00") for day in ("02-27", "02-28", "02-29", "03-01")]


def test_a_start_date_moved_to_later_holds_for_a_dag_that_has_run() -> None:
    for bounds in (catchup("2024-08-20"), no_catchup("2024-08-20"), skip("2024-08-20")):
        assert next_tick(DAILY, fired("2024-08-14 03:00"), bounds, utc("2024-08-15")) == fired("2024-08-20 03:00")
        assert next_tick(Every(seconds=DAY), fired("2024-08-14 03:00"), bounds, utc("2024-08-15")) == fired("2024-08-20")


def test_the_end_date_bounds_the_logical_date_not_the_end_of_the_period() -> None:
    runs = chain(cron("0 0 * * *", mode="interval"), 5, catchup("2024-08-15", "2024-08-16"))

    assert runs == [period("2024-08-15", "2024-08-16"), period("2024-08-16", "2024-08-17")]


def test_a_dag_deployed_after_its_end_date_does_not_run() -> None:
    for timetable in (*hourly("trigger"), *hourly("interval"), Continuous(), Once()):
        assert next_tick(timetable, None, no_catchup(end="2024-08-14"), utc("2024-08-15 00:00")) is None


@pytest.mark.parametrize("timetable", [HOURLY, HOURLY_PERIODS], ids=["trigger", "interval"])
def test_an_outage_over_the_end_date_costs_not_the_last_run(timetable: Timetable) -> None:
    bounds = no_catchup("2024-08-01", end="2024-08-15 07:30")

    tick = next_tick(timetable, period("2024-08-15 04:00", "2024-08-15 05:00"), bounds, utc("2024-08-15 11:40"))

    assert tick is not None
    assert tick.logical_date == utc("2024-08-15 07:00")
    assert next_tick(timetable, tick, bounds, utc("2024-08-15 11:40")) is None


def test_dates_of_other_zones_and_beyond_all_bounds_are_understood() -> None:
    noon = datetime(2024, 8, 15, 12, tzinfo=timezone(timedelta(hours=2)))
    bounds = Bounds(start_date=datetime.min.replace(tzinfo=noon.tzinfo), end_date=datetime.max.replace(tzinfo=noon.tzinfo))

    assert next_tick(HOURLY, None, bounds, noon) == fired("2024-08-15 10:00")


@pytest.mark.parametrize("timetable", [cron("0 0 30 2 *"), cron("0 0 30 2 *", mode="interval")], ids=["trigger", "interval"])
@pytest.mark.parametrize("bounds", [no_catchup(), catchup("2020-01-01"), skip()], ids=["latest", "all", "skip"])
def test_what_never_fires_has_no_next_run(timetable: Timetable, bounds: Bounds) -> None:
    assert next_tick(timetable, None, bounds, utc("2024-08-15")) is None


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
