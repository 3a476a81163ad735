"""Times and spans as people read them."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tidegate.schemas.text import age, cut, local, seconds, span, took, utc

NOON = datetime(2026, 11, 21, 12, 0, 5, 999_000, tzinfo=UTC)


def test_a_time_is_shown_in_utc_to_the_second() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=2)))

    assert utc(elsewhere) == "2026-11-21 12:00:05Z"


@pytest.mark.parametrize(
    ("clock", "expected"),
    [("Asia/Kathmandu", "2026-11-21 17:45:05+05:45"), ("America/New_York", "2026-11-21 07:00:05-05:00")],
)
def test_a_time_on_the_clocks_of_a_zone_says_how_far_they_are_ahead(clock: str, expected: str) -> None:
    assert local(NOON, ZoneInfo(clock)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (312, "5m12s"),
        (3_599.7, "1h00m"),
        (7_500, "2h05m"),
        (86_399, "23h59m"),
        (273_600, "3d04h"),
    ],
)
def test_a_span_has_two_units_at_most(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


def test_an_age_has_no_fractions() -> None:
    assert age(NOON - timedelta(seconds=3.7), NOON) == "3s"


def test_an_age_is_never_negative_for_clocks_differ() -> None:
    assert age(NOON + timedelta(seconds=1), NOON) == "0s"


def test_what_has_not_begun_took_no_time() -> None:
    assert took(None, None, NOON) is None


def test_what_has_not_ended_takes_until_now() -> None:
    assert took(NOON - timedelta(seconds=2), None, NOON) == "2.0s"


def test_what_has_ended_took_until_its_end() -> None:
    assert took(NOON - timedelta(seconds=90), NOON - timedelta(seconds=30), NOON) == "1m00s"


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("0.5s", 0.5)])
def test_a_time_is_read_with_its_units(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "90", "h", "1 h", "1h-5m", "1w"])
def test_other_text_than_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 90s"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("abc", "abc"), ("abcd", "abc… (1 more character)"), ("a" * 1_003, "aaa… (1,000 more characters)")],
)
def test_a_long_text_says_how_much_more_there_was(text: str, expected: str) -> None:
    assert cut(text, 3) == expected
