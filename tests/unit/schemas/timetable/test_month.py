"""Months of event ids."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.schemas.timetable.month import BEFORE, FIRST, after, end_of, month_of

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2098, 12, 31), timezones=st.timezones())  # noqa: DTZ001 - it gets one


@pytest.mark.parametrize(
    ("at", "month"),
    [
        (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), 2612),
        (datetime(2027, 1, 1, tzinfo=UTC), 2701),
        (datetime.fromisoformat("2027-01-01T00:30+01:00"), 2612),
    ],
)
def test_a_month_is_that_of_utc(at: datetime, month: int) -> None:
    assert month_of(at) == month


def test_a_month_is_that_of_utc_wherever_the_daemon_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("TZ", "Asia/Tokyo")
            time.tzset()
            found = month_of(datetime(2026, 12, 31, 23, 59, tzinfo=UTC))
    finally:
        time.tzset()

    assert found == 2612


@given(MOMENTS)
def test_a_moment_is_before_the_end_of_its_month_and_not_of_the_month_before(at: datetime) -> None:
    month = month_of(at)

    assert end_of(month) - timedelta(days=31) <= at < end_of(month)
    assert month_of(end_of(month)) == after(month)


def test_what_was_before_the_months_ends_with_the_first_of_them() -> None:
    assert (after(BEFORE), month_of(end_of(BEFORE))) == (FIRST, FIRST)
