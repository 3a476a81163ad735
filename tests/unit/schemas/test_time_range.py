"""The range of times, at its ends and in any zone."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.schemas.time_range import EARLIEST, LATEST, clamped, in_range

INSTANT = timedelta(microseconds=1)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))


@pytest.mark.parametrize(
    "at", [EARLIEST, EARLIEST.astimezone(WEST), LATEST, LATEST.astimezone(EAST), datetime(2024, 5, 1, tzinfo=EAST)]
)
def test_the_ends_belong_to_the_range(at: datetime) -> None:
    assert in_range("the time", at) is at
    assert clamped(at) == at


@pytest.mark.parametrize(
    ("at", "end"),
    [
        (EARLIEST - INSTANT, EARLIEST),
        (LATEST + INSTANT, LATEST),
        (datetime.min.replace(tzinfo=EAST), EARLIEST),
        (datetime.max.replace(tzinfo=WEST), LATEST),
    ],
)
def test_all_else_is_out_of_range(at: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match=r"^it .* is out of range; write a time from 1900-01-01 to 2200-01-01 UTC$"):
        in_range("it", at)
    assert clamped(at) == end
    assert clamped(at).tzinfo is UTC
