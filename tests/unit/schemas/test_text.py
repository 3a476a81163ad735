"""Times and spans as people read them."""

from datetime import UTC, datetime, timedelta, timezone
from time import tzset
from zoneinfo import ZoneInfo

import pytest

from tidegate.schemas.text import age, counted, cut, is_template, local, reason_problem, seconds, span, took, utc

NOON = datetime(2026, 11, 21, 12, 0, 5, 999_000, tzinfo=UTC)


def test_a_time_is_shown_in_utc_to_the_second() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=2)))

    assert utc(elsewhere) == "2026-11-21 12:00:05Z"


def test_a_time_is_shown_in_utc_wherever_the_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()
    shown = utc(NOON)
    monkeypatch.undo()
    tzset()

    assert shown == "2026-11-21 12:00:05Z"


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
        (0, "0.0s"),
        (9.94, "9.9s"),
        (9.95, "10s"),
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


@pytest.mark.parametrize(("seconds", "expected"), [(3.7, "3s"), (9.97, "9s"), (10, "10s"), (10.7, "11s"), (90, "1m30s")])
def test_an_age_has_no_fractions(seconds: float, expected: str) -> None:
    assert age(NOON - timedelta(seconds=seconds), NOON) == expected


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


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 runs"), (1, "1 run"), (-1, "-1 run"), (2, "2 runs"), (-2, "-2 runs"), (2_000, "2,000 runs")]
)
def test_a_count_has_the_number_of_its_noun(number: int, expected: str) -> None:
    assert counted(number, "run", "runs") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("disk full", ""),
        ("x" * 2_000, ""),
        ("x" * 2_001, "a reason has at most 2000 characters; this one has 2001"),
        ("", "write a few words that say why"),
        (" \n", "write a few words that say why"),
    ],
)
def test_a_reason_has_some_words_and_not_too_many(text: str, problem: str) -> None:
    assert reason_problem(text) == problem


@pytest.mark.parametrize(
    ("text", "renders"), [("{{ ds }}", True), ("{% if x %}", True), ("{# note #}", True), ("a {b} %}", False), ("", False)]
)
def test_a_template_has_marks(text: str, *, renders: bool) -> None:
    assert is_template(text) is renders
