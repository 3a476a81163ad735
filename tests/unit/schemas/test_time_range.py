"""The range of times, at its ends and in any zone."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.schemas.time_range import EARLIEST, LATEST, clamped, in_range, parse_end, parse_time

INSTANT = timedelta(microseconds=1)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))


@pytest.mark.parametrize(
    "at",
    [
        EARLIEST,
        EARLIEST.astimezone(WEST),
        (EARLIEST + INSTANT).astimezone(WEST),
        LATEST,
        LATEST.astimezone(EAST),
        (LATEST - INSTANT).astimezone(EAST),
        datetime(2024, 5, 1, tzinfo=EAST),
    ],
)
def test_the_ends_belong_to_the_range(at: datetime) -> None:
    assert in_range("the time", at) is at
    assert clamped(at) == at


@pytest.mark.parametrize(
    ("at", "end"),
    [
        (EARLIEST - INSTANT, EARLIEST),
        (LATEST + INSTANT, LATEST),
        ((EARLIEST - INSTANT).astimezone(EAST), EARLIEST),
        ((LATEST + INSTANT).astimezone(WEST), LATEST),
        (datetime.min.replace(tzinfo=EAST), EARLIEST),
        (datetime.max.replace(tzinfo=WEST), LATEST),
    ],
)
def test_all_else_is_out_of_range(at: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match=r"^it .* is out of range; write a time from 1900-01-01 to 2200-01-01 UTC$"):
        in_range("it", at)
    assert clamped(at) == end
    assert clamped(at).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2013-01-31", datetime(2013, 1, 31, tzinfo=UTC)),
        ("2013-01-31T06:00", datetime(2013, 1, 31, 6, tzinfo=UTC)),
        ("2013-01-31T06:00+01:00", datetime(2013, 1, 31, 5, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_in_utc(text: str, value: datetime) -> None:
    assert parse_time(text) == value
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tomorrow", "write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00+01:00"),
        ("1899-12-31", "the time 1899-12-31T00:00:00+00:00 is out of range; write a time from 1900-01-01 to 2200-01-01 UTC"),
    ],
)
def test_a_text_that_is_no_time_says_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_time(text)


def test_the_end_of_a_day_is_its_last_moment_and_that_of_a_time_is_the_time() -> None:
    assert parse_end("2013-01-31") == datetime(2013, 1, 31, 23, 59, 59, 999_999, UTC)
    assert parse_end("2200-01-01") == LATEST
    assert parse_end("2013-01-31T06:00") == datetime(2013, 1, 31, 6, tzinfo=UTC)
