"""Trigger mode: a run starts at the tick. Also once, continuous, dates and no timetable."""

import pytest

from tests.unit.schemas.timetable.given import DAY, HOUR, catchup, chain, cron, fired, no_catchup, period, utc
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once, named
from tidegate.schemas.timetable.tick import Bounds, Missed, Tick, manual_interval, next_tick

AFTERNOON = cron("30 16 * * *")
HOURLY = cron("0 * * * *")
HOURLY_DELTA = Every(seconds=HOUR)
HALF_HOURLY = cron("0 * * * *", "30 * * * *")
EARLIER = fired("2021-09-05")


@pytest.mark.parametrize(
    ("last", "following"),
    [
        pytest.param(None, "2021-09-06 16:30", id="first"),
        pytest.param(fired("2021-09-06 16:30"), "2021-09-07 16:30", id="yesterday"),
        pytest.param(fired("2021-09-07 16:30"), "2021-09-08 16:30", id="today"),
    ],
)
def test_t20_a_daily_run_follows_the_last_one(last: Tick | None, following: str) -> None:
    assert next_tick(AFTERNOON, last, no_catchup("2021-09-06"), utc("2021-09-07")) == fired(following)


@pytest.mark.parametrize(
    ("now", "start", "expected"),
    [
        ("2022-07-27 00:00", "2021-09-04", "2022-07-27 00:00"),
        ("2022-07-27 00:30", "2021-09-04", "2022-07-27 00:00"),
        ("2022-07-27 01:00", "2021-09-04", "2022-07-27 01:00"),
        ("2022-07-27 01:30", "2021-09-04", "2022-07-27 01:00"),
        ("2022-07-27 00:30", "2199-12-31 22:30", "2199-12-31 23:00"),
    ],
)
def test_t21_without_catchup_only_the_latest_tick_runs(now: str, start: str, expected: str) -> None:
    assert next_tick(HOURLY, EARLIER, no_catchup(start), utc(now)) == fired(expected)
    assert next_tick(HOURLY, None, no_catchup(start), utc(now)) == fired(expected)


@pytest.mark.parametrize(
    ("last", "start", "following"),
    [
        (fired("2022-07-27 00:00"), "2021-09-04", "2022-07-27 01:00"),
        (fired("2022-07-27 00:30"), "2021-09-04", "2022-07-27 01:00"),
        (None, "2022-07-27 00:00", "2022-07-27 00:00"),
        (None, "2022-07-27 00:30", "2022-07-27 01:00"),
    ],
)
def test_t21_with_catchup_the_tick_after_the_last_one_runs(last: Tick | None, start: str, following: str) -> None:
    assert next_tick(HOURLY, last, catchup(start), utc("2023-01-01")) == fired(following)


@pytest.mark.parametrize(
    ("last", "start", "following"),
    [
        (fired("2022-07-27 00:00"), "2021-09-04", "2022-07-27 01:00"),
        (fired("2022-07-27 00:30"), "2021-09-04", "2022-07-27 01:30"),
        (None, "2022-07-27 00:00", "2022-07-27 00:00"),
        (None, "2022-07-27 00:30", "2022-07-27 00:30"),
    ],
)
def test_t23_a_delta_counts_from_its_last_run(last: Tick | None, start: str, following: str) -> None:
    assert next_tick(HOURLY_DELTA, last, catchup(start), utc("2023-01-01")) == fired(following)


@pytest.mark.parametrize(
    ("now", "start", "expected"),
    [
        ("2022-07-27 00:00", "2021-09-04", "2022-07-27 00:00"),
        ("2022-07-27 00:30", "2021-09-04", "2022-07-27 00:30"),
        ("2022-07-27 01:30", "2021-09-04", "2022-07-27 01:30"),
        ("2022-07-27 00:30", "2199-12-31 22:30", "2199-12-31 22:30"),
    ],
)
@pytest.mark.parametrize("last", [None, EARLIER], ids=["first", "later"])
def test_t23_a_delta_that_missed_whole_periods_runs_now(now: str, start: str, expected: str, last: Tick | None) -> None:
    assert next_tick(HOURLY_DELTA, last, no_catchup(start), utc(now)) == fired(expected)


@pytest.mark.parametrize(
    ("last", "following"),
    [
        pytest.param(None, "2021-09-07 00:00", id="first"),
        pytest.param(fired("2021-09-06 16:30"), "2021-09-07 16:30", id="yesterday"),
        pytest.param(fired("2021-09-07 16:30"), "2021-09-08 16:30", id="today"),
    ],
)
def test_t23_a_daily_delta_follows_the_last_run(last: Tick | None, following: str) -> None:
    assert next_tick(Every(seconds=DAY), last, no_catchup("2021-09-06"), utc("2021-09-07")) == fired(following)


def test_a_delta_does_not_drift_by_how_late_the_clock_looks() -> None:
    tick = next_tick(HOURLY_DELTA, fired("2022-07-27 00:00"), no_catchup(), utc("2022-07-27 01:00:02"))

    assert tick == fired("2022-07-27 01:00")


def test_a_short_delta_catches_up_with_one_run() -> None:
    tick = next_tick(Every(seconds=10), fired("2022-07-27 00:00:00"), no_catchup(), utc("2022-07-27 00:01:05"))

    assert tick == fired("2022-07-27 00:01:00")


def test_t24_a_tick_may_have_a_data_interval_before_it() -> None:
    timetable = cron("30 16 * * MON", interval_s=16.5 * HOUR)

    tick = next_tick(timetable, period("2022-08-01", "2022-08-01 16:30"), catchup("2021-09-04"), utc("2023-01-01"))

    assert tick == period("2022-08-08 00:00", "2022-08-08 16:30")


def test_t24_the_start_and_the_end_date_bound_the_ticks_whose_logical_dates_are_earlier() -> None:
    runs = chain(cron("0 6 * * *", interval_s=DAY), 3, catchup("2022-08-08", "2022-08-09 06:00"))

    assert runs == [period("2022-08-07 06:00", "2022-08-08 06:00"), period("2022-08-08 06:00", "2022-08-09 06:00")]


def test_t24_a_manual_run_has_a_data_interval_of_that_length() -> None:
    at = utc("2022-08-03 12:00")

    assert manual_interval(cron("30 16 * * MON", interval_s=16.5 * HOUR), at) == (utc("2022-08-02 19:30"), at)
    assert manual_interval(AFTERNOON, at) == (at, at)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2025-01-01 00:00", "2025-01-01 00:00"),
        ("2025-01-01 00:05", "2025-01-01 00:30"),
        ("2025-01-01 00:35", "2025-01-01 01:00"),
    ],
)
def test_t27_of_several_crons_the_first_tick_runs(start: str, expected: str) -> None:
    assert next_tick(HALF_HOURLY, None, catchup(start), utc("2025-06-01")) == fired(expected)


@pytest.mark.parametrize(
    ("last", "following"), [("2025-01-01 00:00", "2025-01-01 00:30"), ("2025-01-01 00:30", "2025-01-01 01:00")]
)
def test_t27_of_several_crons_the_tick_after_the_last_run_follows(last: str, following: str) -> None:
    assert next_tick(HALF_HOURLY, fired(last), catchup(), utc("2025-06-01")) == fired(following)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2025-02-01 00:30", "2025-02-01 00:30"),
        ("2025-02-01 01:59", "2025-02-01 01:30"),
        ("2025-02-01 00:29", "2025-02-01 00:30"),
    ],
)
def test_t27_of_several_crons_the_latest_tick_runs_without_catchup(now: str, expected: str) -> None:
    assert next_tick(HALF_HOURLY, fired("2025-02-01"), no_catchup(), utc(now)) == fired(expected)


def test_t27_ticks_of_several_crons_at_one_moment_are_one_run() -> None:
    runs = chain(cron("0 * * * *", "*/30 * * * *"), 3, catchup("2025-01-01"))

    assert runs == [fired("2025-01-01 00:00"), fired("2025-01-01 00:30"), fired("2025-01-01 01:00")]


def test_t28_once_runs_now() -> None:
    assert next_tick(Once(), None, no_catchup(), utc("2025-01-01 12:34")) == fired("2025-01-01 12:34")


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_t28_once_runs_at_its_start_date_however_long_ago(missed: Missed) -> None:
    bounds = Bounds(start_date=utc("2020-01-01"), missed=missed)

    assert next_tick(Once(), None, bounds, utc("2025-01-01")) == fired("2020-01-01")


def test_t28_once_never_runs_again() -> None:
    assert next_tick(Once(), fired("2020-01-01"), no_catchup("2025-01-01"), utc("2025-01-01")) is None


def test_t28_once_does_not_run_after_its_end_date() -> None:
    assert next_tick(Once(), None, no_catchup(end="2024-12-31"), utc("2025-01-01")) is None


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [
        pytest.param(None, "2023-03-06", period("2023-03-03", "2023-03-06"), id="first"),
        pytest.param(None, "2023-03-01", fired("2023-03-03"), id="future-start"),
        pytest.param(period("2023-03-03", "2023-03-05"), "2023-03-06", period("2023-03-05", "2023-03-06"), id="later"),
        pytest.param(period("2023-03-03", "2023-03-06"), "2023-03-10", period("2023-03-06", "2023-03-10"), id="at-the-end"),
        pytest.param(period("2023-03-03", "2023-03-06"), "2023-03-12", None, id="ended"),
        pytest.param(period("2023-03-01", "2023-03-01 01:00"), "2023-03-02", fired("2023-03-03"), id="start-moved"),
    ],
)
def test_t29_continuous_runs_reach_from_the_last_one_to_now(last: Tick | None, now: str, expected: Tick | None) -> None:
    assert next_tick(Continuous(), last, catchup("2023-03-03", "2023-03-10"), utc(now)) == expected


def test_t29_without_a_start_date_continuous_runs_begin_now() -> None:
    assert next_tick(Continuous(), None, no_catchup(), utc("2023-03-06")) == fired("2023-03-06")


def test_t29_a_continuous_run_after_one_without_length_has_a_logical_date_of_its_own() -> None:
    tick = next_tick(Continuous(), fired("2023-03-06"), no_catchup(), utc("2023-03-07"))

    assert tick == Tick(utc("2023-03-07"), utc("2023-03-06"), utc("2023-03-07"), utc("2023-03-07"))


def test_t31_without_a_timetable_there_is_never_a_run_by_time() -> None:
    at = utc("2025-01-01")

    assert next_tick(None, None, catchup("2020-01-01"), at) is None
    assert manual_interval(None, at) == (at, at)


def test_t31_with_a_timetable_beside_datasets_its_ticks_run() -> None:
    assert next_tick(named("@daily"), fired("2025-01-01"), no_catchup(), utc("2025-01-01 12:00")) == fired("2025-01-02")


def test_dates_run_in_order_each_once() -> None:
    dates = Dates(tuple(utc(f"2021-{day}") for day in ("09-08", "09-06", "10-09", "09-08", "09-10")))

    runs = chain(dates, 9, catchup("2021-09-07"))

    assert runs == [fired("2021-09-08"), fired("2021-09-10"), fired("2021-10-09")]


def test_dates_may_follow_each_other_closely() -> None:
    dates = tuple(utc(f"2021-09-08 12:00:{second}") for second in ("00", "00.500", "01"))

    assert [tick.run_after for tick in chain(Dates(dates), 9, catchup("2021-09-08"))] == [*dates]


def test_without_catchup_only_the_latest_date_runs() -> None:
    dates = Dates((utc("2021-09-06"), utc("2021-09-08"), utc("2021-10-09")))

    assert next_tick(dates, None, no_catchup("2021-09-01"), utc("2021-09-02")) == fired("2021-09-06")
    assert next_tick(dates, None, no_catchup("2021-09-01"), utc("2021-09-20")) == fired("2021-09-08")
    assert next_tick(dates, fired("2021-09-08"), no_catchup("2021-09-01"), utc("2021-09-20")) == fired("2021-10-09")


@pytest.mark.parametrize("timetable", [cron("* * * * * *", interval_s=DAY * 3650), Every(seconds=1, interval_s=DAY * 3650)])
@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_the_logical_date_goes_on_where_the_timetable_got_a_longer_interval(timetable: Cron | Every, missed: Missed) -> None:
    """The ticks of ten years would have earlier logical dates: deciding about each of them takes hours."""
    following = next_tick(timetable, fired("2024-05-01 12:00"), Bounds(missed=missed), utc("2024-05-01 12:00:10"))

    assert following is not None
    assert following.logical_date == utc("2024-05-01 12:00:01")
