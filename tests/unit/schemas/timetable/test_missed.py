"""Missed ticks that still get a run, and the bounds of runs."""

from datetime import datetime, timedelta, timezone

import pytest

from tests.unit.schemas.timetable.given import DAY, HOUR, catchup, chain, cron, fired, hourly, no_catchup, period, utc
from tidegate.schemas.timetable.spec import Continuous, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import Bounds, Missed, Tick, next_tick, was_missed

DAILY = cron("0 3 * * *")
HOURLY = cron("0 * * * *")
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


@pytest.mark.parametrize(
    ("immediately", "missed", "expected"),
    [
        (False, "latest", "2024-08-17 03:00"),
        (False, "all", "2024-08-16 03:00"),
        (False, "skip", "2024-08-18 03:00"),
        (None, "all", "2024-08-16 03:00"),
        (True, "all", "2024-08-15 03:00"),
        (True, "latest", "2024-08-17 03:00"),
    ],
)
def test_a_first_run_is_waited_for_since_the_dag_got_its_timetable(
    missed: Missed, expected: str, *, immediately: bool | None
) -> None:
    bounds = Bounds(missed=missed, run_immediately=immediately, since=utc("2024-08-15 12:00"))

    assert next_tick(DAILY, None, bounds, utc("2024-08-17 03:02")) == fired(expected)


@pytest.mark.parametrize(
    ("missed", "now", "expected"),
    [
        *((missed, "12:00", "2024-08-15 18:00") for missed in ("latest", "all", "skip")),
        *((missed, "18:00", "2024-08-15 18:00") for missed in ("latest", "all", "skip")),
        ("latest", "19:00", "2024-08-15 19:00"),
        ("all", "19:00", "2024-08-15 18:00"),
        ("skip", "19:00", "2024-08-16 00:00"),
    ],
)
def test_a_delta_that_waits_runs_one_period_after_the_dag_got_its_timetable(missed: Missed, now: str, expected: str) -> None:
    at, delta = utc(f"2024-08-15 {now}"), Every(seconds=6 * HOUR)
    waits = Bounds(missed=missed, run_immediately=False, since=utc("2024-08-15 12:00"))

    assert next_tick(delta, None, waits, at) == fired(expected)
    assert next_tick(delta, None, Bounds(missed=missed, run_immediately=True), at) == fired(f"2024-08-15 {now}")


def test_a_delta_waits_for_one_period_however_long_its_data_interval_is() -> None:
    bounds = Bounds(missed="all", run_immediately=False, since=utc("2024-08-15 12:00"))

    tick = next_tick(Every(seconds=6 * HOUR, interval_s=12 * HOUR), None, bounds, utc("2024-08-15 12:00"))

    assert tick == period("2024-08-15 06:00", "2024-08-15 18:00")


def test_a_delta_with_a_start_date_does_not_wait() -> None:
    bounds = Bounds(start_date=utc("2024-08-15 11:00"), missed="all", run_immediately=False, since=utc("2024-08-15 12:00"))

    assert next_tick(Every(seconds=HOUR), None, bounds, utc("2024-08-15 12:00")) == fired("2024-08-15 11:00")


@pytest.mark.parametrize(
    ("immediately", "expected"),
    [(False, period("2024-08-15 11:00", "2024-08-15 12:00")), (None, period("2024-08-15 10:00", "2024-08-15 11:00"))],
)
@pytest.mark.parametrize("timetable", hourly("interval"), ids=["cron", "delta"])
def test_a_first_period_is_waited_for_since_the_dag_got_its_timetable(
    timetable: Timetable, expected: Tick, *, immediately: bool | None
) -> None:
    bounds = Bounds(missed="all", run_immediately=immediately, since=utc("2024-08-15 11:40"))

    assert next_tick(timetable, None, bounds, utc("2024-08-15 12:00:01")) == expected


def test_a_first_calendar_period_ends_when_the_dag_got_its_timetable() -> None:
    bounds = Bounds(missed="all", since=utc("2024-08-15 11:40"))

    tick = next_tick(Every(months=1, mode="interval"), None, bounds, utc("2024-08-15 12:00"))

    assert tick == period("2024-07-15 11:40", "2024-08-15 11:40")


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


@pytest.mark.parametrize("timetable", [HOURLY, HOURLY_PERIODS, Every(seconds=HOUR)], ids=["trigger", "interval", "delta"])
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


@pytest.mark.parametrize(("now", "missed"), [("2024-08-15 05:01:00", False), ("2024-08-15 05:01:01", True)])
def test_a_run_was_missed_after_a_minute(now: str, *, missed: bool) -> None:
    assert was_missed(fired("2024-08-15 05:00"), utc(now)) is missed


@pytest.mark.parametrize(
    ("end", "now", "expected"),
    [
        (None, "03:06:00", "03:00:00"),
        (None, "03:06:01", "03:06:01"),
        ("03:30:00", "03:30:00", "03:30:00"),
        ("03:30:00", "03:30:01", "03:00:00"),
    ],
    ids=["within a tenth", "later", "at the end date", "after the end date"],
)
def test_a_delta_that_missed_runs_takes_the_last_tick_or_begins_anew(end: str | None, now: str, expected: str) -> None:
    bounds = no_catchup(end=end and f"2024-08-15 {end}")

    tick = next_tick(Every(seconds=HOUR), fired("2024-08-15 00:00"), bounds, utc(f"2024-08-15 {now}"))

    assert tick == fired(f"2024-08-15 {expected}")


@pytest.mark.parametrize(("now", "expected"), [("03:05", fired("2024-08-15 03:00")), ("03:06", None)])
def test_the_last_date_of_all_counts_as_just_passed_for_five_minutes(now: str, expected: Tick | None) -> None:
    assert next_tick(Dates((utc("2024-08-15 03:00"),)), None, catchup(), utc(f"2024-08-15 {now}")) == expected


def test_calendar_periods_without_a_start_date_count_from_the_last_run() -> None:
    tick = next_tick(Every(months=1, mode="interval"), period("2024-01-15", "2024-02-15"), no_catchup(), utc("2024-06-20"))

    assert tick == period("2024-05-15", "2024-06-15")


def test_the_last_period_of_a_delta_before_the_end_date_may_still_be_due() -> None:
    last, bounds = period("2024-08-15 05:00", "2024-08-15 06:00"), no_catchup(end="2024-08-15 08:30")

    tick = next_tick(Every(seconds=HOUR, mode="interval"), last, bounds, utc("2024-08-15 12:00"))

    assert tick == period("2024-08-15 08:00", "2024-08-15 09:00")
