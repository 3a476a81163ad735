"""Where the clocks are put forward or back: the cases with the dates on which they happened.

Zurich: 2023-03-26 02:00 became 03:00 (01:00 UTC), 2023-10-29 03:00 became 02:00 (01:00 UTC).
Lord Howe: 2024-10-06 02:00 became 02:30 (15:30 UTC the day before), 2024-04-07 02:00 became 01:30 (15:00 UTC the day before).
"""

from itertools import islice, pairwise

import pytest

from tests.unit.schemas.timetable.given import catchup, chain, cron, fires, no_catchup, period, utc
from tidegate.schemas.timetable.tick import INSTANT, manual_interval, next_tick
from tidegate.schemas.timetable.tick_times import ticks_of

ZURICH, NEW_YORK, LORD_HOWE = "Europe/Zurich", "America/New_York", "Australia/Lord_Howe"


FIRES = [
    pytest.param("0 3 * * *", ZURICH, "2023-03-25", ["03-25 02:00", "03-26 01:00", "03-27 01:00"], id="t10-after-a-gap"),
    pytest.param("0 3 * * *", ZURICH, "2023-10-28", ["10-28 01:00", "10-29 02:00", "10-30 02:00"], id="t12-after-a-fold"),
    pytest.param(
        *("*/30 * * * *", ZURICH, "2023-10-29 00:30", ["10-29 00:30", "10-29 01:00", "10-29 01:30", "10-29 02:00"]),
        id="t14-every-half-hour-over-a-fold",
    ),
    pytest.param("30 2 * * *", ZURICH, "2023-03-25", ["03-25 01:30", "03-26 01:30", "03-27 00:30"], id="inside-a-gap"),
    pytest.param("0 2 * * *", ZURICH, "2023-03-25", ["03-25 01:00", "03-26 01:00", "03-27 00:00"], id="begin-of-a-gap"),
    pytest.param("30 2 * * *", ZURICH, "2023-10-28", ["10-28 00:30", "10-29 01:30", "10-30 01:30"], id="inside-a-fold"),
    pytest.param("0 2 * * *", ZURICH, "2023-10-28", ["10-28 00:00", "10-29 01:00", "10-30 01:00"], id="begin-of-a-fold"),
    pytest.param(
        *("0 * * * *", ZURICH, "2023-03-26", ["03-26 00:00", "03-26 01:00", "03-26 02:00", "03-26 03:00"]),
        id="every-hour-over-a-gap",
    ),
    pytest.param(
        *("*/30 1-3 * * *", ZURICH, "2023-10-28 23:00"),
        ["10-28 23:00", "10-28 23:30", "10-29 01:00", "10-29 01:30", "10-29 02:00", "10-29 02:30"],
        id="not-every-hour-over-a-fold",
    ),
    pytest.param(
        *("15,45 2,3 * * *", ZURICH, "2023-03-26", ["03-26 01:15", "03-26 01:45", "03-27 00:15"]),
        id="skipped-times-that-meet-others-are-one-run",
    ),
    pytest.param(
        *("45 2,3 * * *", ZURICH, "2023-03-26", ["03-26 01:45", "03-27 00:45", "03-27 01:45"]),
        id="a-skipped-time-that-meets-another-is-one-run",
    ),
    pytest.param(
        *("0 * * * *", LORD_HOWE, "2024-10-05 14:30", ["10-05 14:30", "10-05 15:30", "10-05 16:00", "10-05 17:00"]),
        id="every-hour-over-half-an-hour-forward",
    ),
    pytest.param(
        *("0 * * * *", LORD_HOWE, "2024-04-06 14:00", ["04-06 14:00", "04-06 15:30", "04-06 16:30"]),
        id="every-hour-over-half-an-hour-back",
    ),
    pytest.param(
        *("45 * * * *", LORD_HOWE, "2024-04-06 13:45", ["04-06 13:45", "04-06 14:45", "04-06 15:15", "04-06 16:15"]),
        id="every-hour-inside-half-an-hour-back",
    ),
    pytest.param("0 2 * * *", LORD_HOWE, "2024-10-04 15:00", ["10-04 15:30", "10-05 15:30", "10-06 15:00"], id="half-a-gap"),
]
"""Expressions with zones, and when they fire from a time on."""


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), FIRES)
def test_cron_fires_at(expression: str, zone: str, start: str, expected: list[str]) -> None:
    assert fires(cron(expression, zone=zone), len(expected), start) == [utc(f"{start[:4]}-{at}") for at in expected]


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), FIRES)
def test_going_from_tick_to_tick_meets_the_same_in_both_directions(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    ticks, moments = ticks_of(cron(expression, zone=zone)), [utc(f"{start[:4]}-{at}") for at in expected]

    onwards = ticks.walk(moments[0] - INSTANT, is_reverse=False)
    backwards = ticks.walk(moments[-1], is_reverse=True)

    assert list(islice(onwards, len(moments))) == moments
    assert list(islice(backwards, len(moments))) == moments[::-1]


@pytest.mark.parametrize(
    ("expression", "zone", "at", "expected"),
    [
        pytest.param("0 2 * * *", NEW_YORK, "2024-03-10 07:30", ("2024-03-09 07:00", "2024-03-10 07:00"), id="new-york-gap"),
        pytest.param("0 2 * * *", NEW_YORK, "2024-03-10 07:00", ("2024-03-09 07:00", "2024-03-10 07:00"), id="exactly"),
        pytest.param("0 2 * * *", ZURICH, "2023-03-26 01:30", ("2023-03-25 01:00", "2023-03-26 01:00"), id="zurich-gap"),
        pytest.param("0 2 * * *", LORD_HOWE, "2024-10-05 15:30", ("2024-10-04 15:30", "2024-10-05 15:30"), id="half-a-gap"),
        pytest.param("0 1 * * *", NEW_YORK, "2024-11-03 05:30", ("2024-11-01 05:00", "2024-11-02 05:00"), id="new-york-fold"),
    ],
)
def test_t16_the_last_complete_period_is_neither_empty_nor_in_the_future(
    expression: str, zone: str, at: str, expected: tuple[str, str]
) -> None:
    timetable = cron(expression, zone=zone, mode="interval")

    assert manual_interval(timetable, utc(at)) == (utc(expected[0]), utc(expected[1]))
    assert next_tick(timetable, None, no_catchup(), utc(at)) == period(*expected)


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        (NEW_YORK, "2024-03-10 07:30", period("2024-03-10 07:00", "2024-03-11 06:00")),
        (ZURICH, "2023-03-26 01:30", period("2023-03-26 01:00", "2023-03-27 00:00")),
    ],
)
def test_t16_the_period_after_the_last_complete_one_is_not_skipped(zone: str, at: str, expected: object) -> None:
    timetable = cron("0 2 * * *", zone=zone, mode="interval")

    last = next_tick(timetable, None, no_catchup(), utc(at))

    assert next_tick(timetable, last, catchup(), utc(at)) == expected


@pytest.mark.parametrize(
    ("expression", "zone", "start", "ends"),
    [
        pytest.param("0 3 * * *", ZURICH, "2023-03-24", ["03-24 02:00", "03-25 02:00", "03-26 01:00", "03-27 01:00"], id="gap"),
        pytest.param(
            "0 2 * * *", ZURICH, "2023-03-24", ["03-24 01:00", "03-25 01:00", "03-26 01:00", "03-27 00:00"], id="in-gap"
        ),
        pytest.param("0 3 * * *", ZURICH, "2023-10-27", ["10-27 01:00", "10-28 01:00", "10-29 02:00", "10-30 02:00"], id="fold"),
        pytest.param(
            "0 2 * * *", ZURICH, "2023-10-27", ["10-27 00:00", "10-28 00:00", "10-29 01:00", "10-30 01:00"], id="in-fold"
        ),
        pytest.param(
            *("0 7-8 * * *", "America/Los_Angeles", "2020-03-07", ["03-07 15:00", "03-07 16:00", "03-08 14:00", "03-08 15:00"]),
            id="los-angeles",
        ),
    ],
)
def test_periods_follow_each_other_over_a_change_of_the_clocks(expression: str, zone: str, start: str, ends: list[str]) -> None:
    runs = chain(cron(expression, zone=zone, mode="interval"), len(ends) - 1, catchup(start))

    moments = [utc(f"{start[:4]}-{at}") for at in ends]
    assert [(run.interval_start, run.interval_end) for run in runs] == list(pairwise(moments))
