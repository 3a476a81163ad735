"""Validation, serialisation and descriptions of timetables."""

from datetime import datetime

import msgspec
import pytest

from tests.unit.schemas.timetable.given import DAY, HOUR, cron, utc
from tidegate.schemas.timetable.cron import PRESETS, compiled
from tidegate.schemas.timetable.spec import (
    LONGEST_S,
    Continuous,
    Cron,
    Dates,
    Every,
    Once,
    Timetable,
    describe,
    named,
    validate,
)

EACH: list[tuple[Timetable, str]] = [
    (cron("30 16 * * *", zone="Europe/Zurich"), "cron 30 16 * * * Europe/Zurich"),
    (cron("0 * * * *", "30 * * * *", mode="interval"), "cron 0 * * * *, 30 * * * * UTC by interval"),
    (cron("0 * * * *", interval_s=LONGEST_S), "cron 0 * * * * UTC"),
    (Every(seconds=HOUR), "every 1 h"),
    (Every(seconds=90 * 60), "every 90 min"),
    (Every(seconds=1.5), "every 1.5 s"),
    (Every(seconds=7 * DAY, mode="interval"), "every 7 d by interval"),
    (Every(seconds=0.001), "every 0.001 s"),
    (Every(months=1), "every 1 month"),
    (Every(months=3), "every 3 months"),
    (Every(months=12), "every 1 year"),
    (Every(months=24, seconds=HOUR), "every 2 years and 1 h"),
    (Every(months=1200), "every 100 years"),
    (Dates((utc("2024-08-15"),)), "on 2024-08-15 00:00:00+00:00"),
    (
        Dates((utc("2024-08-15"), utc("2021-01-01 12:00"))),
        "on 2 dates from 2021-01-01 12:00:00+00:00 to 2024-08-15 00:00:00+00:00",
    ),
    (Once(), "once"),
    (Continuous(), "continuously"),
]


@pytest.mark.parametrize("timetable", [timetable for timetable, _ in EACH], ids=describe)
def test_a_timetable_is_valid_and_stays_the_same_when_it_is_stored(timetable: Timetable) -> None:
    validate(timetable)

    assert msgspec.json.decode(msgspec.json.encode(timetable), type=Timetable) == timetable


@pytest.mark.parametrize(("timetable", "text"), EACH, ids=lambda value: value if isinstance(value, str) else "")
def test_a_timetable_is_described_in_one_line(timetable: Timetable, text: str) -> None:
    assert describe(timetable) == text


def test_no_timetable_is_described_too() -> None:
    assert describe(None) == "never by time"


@pytest.mark.parametrize(
    ("timetable", "reason"),
    [
        pytest.param(cron("0 0 1 13 0"), "cron '0 0 1 13 0': the month cannot be '13'", id="t09-cron"),
        pytest.param(cron("0 3 * * *", "0 0 0 * *"), "cron '0 0 0 \\* \\*': the day of month cannot be '0'", id="second-cron"),
        pytest.param(Every(), "must be longer than 0, and no part of it negative, not 0 s", id="t09-zero"),
        pytest.param(Every(seconds=-DAY), "must be longer than 0, and no part of it negative, not -1 d", id="t09-negative"),
        pytest.param(Every(months=-1), "must be longer than 0, and no part of it negative, not -1 month", id="t09-months"),
        pytest.param(Every(months=1, seconds=-DAY), "no part of it negative, not 1 month and -1 d", id="t09-part"),
        pytest.param(Every(seconds=1e-9), "must be at least 0.001 s", id="too-short"),
        pytest.param(Every(seconds=1e12), "must be at most 100 years", id="too-long"),
        pytest.param(Every(seconds=float("inf")), "must be at most 100 years", id="endless"),
        pytest.param(Every(seconds=float("nan")), "must be at most 100 years", id="no-number"),
        pytest.param(Every(months=1201), "must be at most 100 years", id="too-many-months"),
        pytest.param(Every(seconds=HOUR, timezone="Europe/Zürich"), "there is no time zone 'Europe/Zürich'", id="delta-zone"),
        pytest.param(cron(), "^a cron timetable needs at least one expression, such as '0 3 \\* \\* \\*'$", id="no-expression"),
        pytest.param(cron("0 3 * * *", zone="Mars/Base"), "there is no time zone 'Mars/Base'; write", id="zone"),
        pytest.param(cron("0 3 * * *", zone="Europe"), "there is no time zone 'Europe'", id="zone-folder"),
        pytest.param(cron("0 3 * * *", zone="../etc/passwd"), "there is no time zone", id="zone-path"),
        pytest.param(cron("0 3 * * *", zone=""), "there is no time zone ''", id="zone-empty"),
        pytest.param(cron("0 3 * * *", interval_s=-1), "from 0 to 100 years long, not -1 s", id="interval"),
        pytest.param(
            cron("0 3 * * *", mode="interval", interval_s=60),
            "^in interval mode the data interval is the time between two ticks; leave out interval, or use trigger mode$",
            id="interval-twice",
        ),
        pytest.param(
            Dates(()), "^a list of dates needs at least one date; write None for a DAG that never runs by time$", id="no-date"
        ),
        pytest.param(Dates((datetime(2024, 1, 1),)), "the date 2024-01-01 00:00:00 has no time zone", id="naive"),  # noqa: DTZ001 - the mistake
    ],
)
def test_invalid_timetables_are_refused_with_a_sentence(timetable: Timetable, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        validate(timetable)


def test_every_preset_is_an_expression_that_is_accepted() -> None:
    for name, expression in PRESETS.items():
        assert named(name, "Europe/Zurich") == Cron((expression,), "Europe/Zurich")
        assert compiled(expression)


def test_a_schedule_is_named_by_preset_or_written_as_an_expression() -> None:
    assert named("@once") == Once()
    assert named("@continuous") == Continuous()
    assert named("0 3 * * *", mode="interval") == cron("0 3 * * *", mode="interval")


def test_an_unknown_preset_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"'@fortnightly' is not known; .*@hourly, .*@annually, .*@once"):
        named("@fortnightly")
