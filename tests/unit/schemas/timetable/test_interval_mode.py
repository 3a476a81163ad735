"""In interval mode a run starts at the end of its data interval, whose start is its logical date."""

import pytest

from tests.unit.schemas.timetable.given import DAY, HOUR, catchup, chain, cron, fired, hourly, no_catchup, period, utc
from tidegate.schemas.timetable.spec import Every, Timetable
from tidegate.schemas.timetable.tick import Tick, manual_interval, next_tick
from tidegate.schemas.timetable.tick_times import Grid

DAILY = cron("0 0 * * *", mode="interval")
AFTERNOON = cron("30 16 * * *", mode="interval")
MONTHLY = Every(months=1, mode="interval")
YEARLY = Every(months=12, mode="interval")
EARLIER = period("2021-09-04", "2021-09-05")


@pytest.mark.parametrize("last", [None, EARLIER], ids=["first", "later"])
def test_t01_without_catchup_the_first_run_is_that_of_the_period_after_the_start_date(last: Tick | None) -> None:
    tick = next_tick(AFTERNOON, last, no_catchup("2021-09-06"), utc("2021-09-07"))

    assert tick == period("2021-09-06 16:30", "2021-09-07 16:30")


@pytest.mark.parametrize("last", [None, EARLIER], ids=["first", "later"])
@pytest.mark.parametrize("timetable", hourly("interval"), ids=["cron", "delta"])
def test_t02_on_the_hour_the_period_that_ends_now_runs(timetable: Timetable, last: Tick | None) -> None:
    tick = next_tick(timetable, last, no_catchup("2021-09-04"), utc("2021-09-07"))

    assert tick == period("2021-09-06 23:00", "2021-09-07 00:00")


@pytest.mark.parametrize("timetable", hourly("interval"), ids=["cron", "delta"])
def test_t03_with_catchup_a_period_starts_where_the_last_one_ended(timetable: Timetable) -> None:
    tick = next_tick(timetable, EARLIER, catchup("2021-09-04"), utc("2021-09-07"))

    assert tick == period("2021-09-05 00:00", "2021-09-05 01:00")


@pytest.mark.parametrize(
    ("last", "following"),
    [
        pytest.param(period("2022-08-07", "2022-08-08"), period("2022-08-08", "2022-08-09"), id="same"),
        pytest.param(period("2022-08-07 01:00", "2022-08-08 01:00"), period("2022-08-08", "2022-08-09"), id="edited"),
    ],
)
def test_t04_after_an_edit_of_the_schedule_the_next_period_is_aligned_to_it(last: Tick, following: Tick) -> None:
    assert next_tick(DAILY, last, catchup(), utc("2022-08-20")) == following


@pytest.mark.parametrize("catches_up", [True, False])
@pytest.mark.parametrize("start", [None, "2021-09-04"])
def test_t04_the_first_period_of_an_edited_schedule_starts_before_the_last_run_ended(
    start: str | None, *, catches_up: bool
) -> None:
    bounds = catchup(start) if catches_up else no_catchup(start)

    tick = next_tick(AFTERNOON, period("2021-09-06", "2021-09-07"), bounds, utc("2021-09-07"))

    assert tick == period("2021-09-06 16:30", "2021-09-07 16:30")


@pytest.mark.parametrize("catches_up", [True, False])
def test_t04_no_logical_date_comes_again_when_a_schedule_changes_its_mode(*, catches_up: bool) -> None:
    at = period("2021-09-05 17:00", "2021-09-05 17:00")

    tick = next_tick(cron("0 17 * * *", mode="interval"), at, catchup() if catches_up else no_catchup(), utc("2021-09-07 15:00"))

    assert tick == period("2021-09-06 17:00", "2021-09-07 17:00")


@pytest.mark.parametrize("at", ["2022-08-08 01:00", "2022-08-08 00:00"])
def test_t06_a_manual_run_has_the_last_complete_period(at: str) -> None:
    assert manual_interval(DAILY, utc(at)) == (utc("2022-08-07"), utc("2022-08-08"))


@pytest.mark.parametrize("last", [None, period("2020-01-01", "2020-02-01")], ids=["first", "later"])
@pytest.mark.parametrize(
    ("timetable", "start", "expected"),
    [
        pytest.param(MONTHLY, "2025-01-15", period("2026-05-15", "2026-06-15"), id="monthly"),
        pytest.param(YEARLY, "2020-03-10", period("2025-03-10", "2026-03-10"), id="yearly"),
    ],
)
def test_t07_calendar_periods_count_from_the_start_date(timetable: Every, start: str, expected: Tick, last: Tick | None) -> None:
    assert next_tick(timetable, last, no_catchup(start), utc("2026-06-29")) == expected


def test_t08_a_day_the_month_does_not_have_becomes_its_last_one_and_stays() -> None:
    tick = next_tick(MONTHLY, None, no_catchup("2025-01-31"), utc("2026-06-29"))

    assert tick == period("2026-05-28", "2026-06-28")


def test_t08_catching_up_goes_the_same_way_from_month_to_month() -> None:
    runs = chain(MONTHLY, 4, catchup("2025-01-31"))

    assert [tick.interval_end for tick in runs] == [utc(f"2025-{day}") for day in ("02-28", "03-28", "04-28", "05-28")]


def test_two_months_after_the_31st_never_meet_february() -> None:
    runs = chain(Every(months=2, mode="interval"), 7, catchup("2025-01-31"))

    assert [tick.interval_end.day for tick in runs] == [31, 31, 31, 30, 30, 30, 30]


def test_a_leap_day_becomes_the_28th_and_stays() -> None:
    runs = chain(YEARLY, 5, catchup("2024-02-29"))

    assert [tick.interval_end.date().isoformat() for tick in runs][-2:] == ["2028-02-28", "2029-02-28"]


def test_calendar_periods_keep_the_local_time_of_day() -> None:
    runs = chain(Every(months=1, timezone="Europe/Zurich", mode="interval"), 4, catchup("2023-01-31 23:00"))

    assert [tick.interval_end for tick in runs] == [
        utc(f"2023-{at}") for at in ("02-28 23:00", "03-31 22:00", "04-30 22:00", "05-31 22:00")
    ]


def test_months_and_real_time_together_are_added_one_after_the_other() -> None:
    runs = chain(Every(months=1, seconds=DAY, mode="interval"), 3, catchup("2025-01-31"))

    assert [tick.interval_end for tick in runs] == [utc("2025-03-01"), utc("2025-04-02"), utc("2025-05-03")]


def test_a_calendar_delta_without_a_start_date_ends_now() -> None:
    tick = next_tick(MONTHLY, None, no_catchup(), utc("2026-06-29 12:00"))

    assert tick == period("2026-05-29 12:00", "2026-06-29 12:00")


def test_a_delta_is_real_time_across_a_change_of_the_clocks() -> None:
    runs = chain(Every(seconds=DAY, timezone="Europe/Zurich", mode="interval"), 3, catchup("2023-03-24 23:00"))

    assert [tick.interval_end for tick in runs] == [utc("2023-03-25 23:00"), utc("2023-03-26 23:00"), utc("2023-03-27 23:00")]


def test_a_delta_has_the_same_periods_with_and_without_catchup() -> None:
    every = Every(seconds=7 * DAY, mode="interval")

    latest = next_tick(every, None, no_catchup("2025-01-06"), utc("2025-03-05"))

    assert latest in chain(every, 20, catchup("2025-01-06"))
    assert latest == period("2025-02-24", "2025-03-03")


def test_a_manual_run_of_a_delta_has_the_period_that_ends_with_it() -> None:
    at = utc("2025-03-31 12:34:56")

    assert manual_interval(Every(seconds=HOUR, mode="interval"), at) == (utc("2025-03-31 11:34:56"), at)
    assert manual_interval(MONTHLY, at) == (utc("2025-02-28 12:34:56"), at)


def test_a_manual_run_of_an_expression_that_never_fires_has_a_period_without_length() -> None:
    at = utc("2025-03-31 12:34:56")

    assert manual_interval(cron("0 0 30 2 *", mode="interval"), at) == (at, at)


def test_several_crons_share_their_periods() -> None:
    runs = chain(cron("0 0 * * *", "0 6 * * *", mode="interval"), 3, catchup("2025-01-01"))

    assert runs == [
        period("2025-01-01 00:00", "2025-01-01 06:00"),
        period("2025-01-01 06:00", "2025-01-02 00:00"),
        period("2025-01-02 00:00", "2025-01-02 06:00"),
    ]


@pytest.mark.parametrize("start", [None, "2025-01-01"])
def test_a_period_of_a_delta_starts_where_the_last_one_ended_after_an_edit_too(start: str | None) -> None:
    last = period("2025-01-05 07:05", "2025-01-05 08:05")

    tick = next_tick(Every(seconds=HOUR, mode="interval"), last, catchup(start), utc("2025-01-06"))

    assert tick == period("2025-01-05 08:05", "2025-01-05 09:05")


def test_a_delta_without_a_start_date_has_round_periods() -> None:
    tick = next_tick(Every(seconds=HOUR, mode="interval"), None, no_catchup(), utc("2025-01-06 10:20"))

    assert tick == period("2025-01-06 09:00", "2025-01-06 10:00")


def test_a_delta_whose_last_run_had_no_length_goes_on_with_the_next_period() -> None:
    tick = next_tick(Every(seconds=HOUR, mode="interval"), fired("2025-01-05 08:05"), catchup(), utc("2025-01-06"))

    assert tick == period("2025-01-05 09:05", "2025-01-05 10:05")


def test_calendar_periods_return_to_their_time_of_day_after_one_that_does_not_exist() -> None:
    runs = chain(Every(months=1, timezone="Europe/Zurich", mode="interval"), 3, catchup("2023-02-26 01:30"))

    assert [tick.interval_end for tick in runs] == [utc("2023-03-26 01:30"), utc("2023-04-26 00:30"), utc("2023-05-26 00:30")]


@pytest.mark.parametrize(
    ("first", "second"), [("2023-10-29 00:30", "2023-11-29 01:30"), ("2024-10-27 00:30", "2024-11-27 01:30")]
)
def test_calendar_periods_may_start_at_the_first_of_two_like_times(first: str, second: str) -> None:
    """On a day that some months lack, and on one that all have."""
    runs = chain(Every(months=1, timezone="Europe/Zurich", mode="interval"), 2, catchup(first))

    assert [tick.interval_start for tick in runs] == [utc(first), utc(second)]


@pytest.mark.parametrize("every", [Every(months=1), Every(months=1, seconds=DAY), Every(months=12), Every(seconds=DAY)])
def test_periods_before_their_anchor_are_as_long(every: Every) -> None:
    grid = Grid(every, utc("2025-01-28 12:00"))

    before = grid.until(utc("2022-05-05"))

    assert before <= utc("2022-05-05") < grid.after(utc("2022-05-05"))
    assert Grid(every, before).after(before) == grid.after(utc("2022-05-05"))
