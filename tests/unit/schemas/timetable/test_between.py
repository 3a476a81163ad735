"""The runs of a range of dates, in both orders, are planned by the timetable one after the other."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shapes import NOW
from tidegate.schemas.timetable.between import anchor_of, has_dates, is_date, nearest_dates, ticks_between
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import EPOCH, UNBOUND, Bounds, next_tick

DAY = timedelta(days=1)
LATER = NOW + 4000 * DAY

TIMETABLES = (
    Cron(("0 0 * * *",)),
    Cron(("30 2 * * *", "0 12 * * 1"), timezone="Europe/Zurich"),
    Cron(("30 2 * * *",), timezone="Europe/Zurich", mode="interval"),
    Cron(("0 6 * * *",), interval_s=86400),
    Every(seconds=7 * 3600, mode="interval"),
    Every(months=1, mode="interval"),
    Every(months=1, seconds=3600, timezone="America/New_York", mode="interval"),
    Dates((NOW, NOW + DAY, NOW - 40 * DAY)),
)

days = st.integers(-400, 400).map(lambda number: NOW + number * DAY / 4)


def one_by_one(timetable: Timetable, start: datetime, end: datetime) -> list[Any]:
    """The runs of a DAG that begins at `start` and misses none."""
    bounds, last, found = Bounds(start_date=start, missed="all"), None, []
    while (tick := next_tick(timetable, last, bounds, LATER)) is not None and tick.logical_date <= end:
        found.append(tick)
        last = tick
    return [tick for tick in found if tick.logical_date >= start]


@given(st.sampled_from(TIMETABLES), days, days)
def test_a_range_has_the_runs_of_a_dag_that_begins_and_ends_with_it(timetable: Timetable, one: datetime, other: datetime) -> None:
    start, end = min(one, other), max(one, other)
    anchor = start if isinstance(timetable, Every) else EPOCH

    assert list(ticks_between(timetable, anchor, start, end)) == one_by_one(timetable, start, end)


@given(st.sampled_from(TIMETABLES), days, days)
def test_in_reverse_they_are_the_same(timetable: Timetable, one: datetime, other: datetime) -> None:
    start, end = min(one, other), max(one, other)
    forward = list(ticks_between(timetable, start, start, end))

    assert list(ticks_between(timetable, start, start, end, is_reverse=True)) == forward[::-1]


@pytest.mark.parametrize("timetable", TIMETABLES)
def test_a_date_is_the_nearest_to_itself(timetable: Timetable) -> None:
    (before, _), (_, after) = (nearest_dates(timetable, EPOCH, at) for at in (NOW - DAY / 5, NOW - 2 * DAY))

    for at in filter(None, (before, after)):
        assert nearest_dates(timetable, EPOCH, at) == (at, at)
        assert is_date(timetable, EPOCH, at)
        assert not is_date(timetable, EPOCH, at + DAY / 7)


@pytest.mark.parametrize("timetable", [None, Once(), Continuous()])
def test_some_timetables_have_no_dates(timetable: Timetable | None) -> None:
    assert not has_dates(timetable)
    assert list(ticks_between(timetable, EPOCH, NOW, NOW + DAY)) == []
    assert has_dates(TIMETABLES[0])


@pytest.mark.parametrize(
    ("timetable", "bounds", "anchor"),
    [
        (Every(seconds=60), UNBOUND, EPOCH),
        (Every(months=1), UNBOUND, NOW),
        (Every(months=1), Bounds(start_date=LATER), LATER),
    ],
)
def test_periods_count_from_the_start_date(timetable: Timetable, bounds: Bounds, anchor: datetime) -> None:
    assert anchor_of(timetable, bounds, NOW) == anchor


def test_an_expression_that_never_fires_has_no_periods() -> None:
    assert list(ticks_between(Cron(("0 0 30 2 *",), mode="interval"), EPOCH, NOW, LATER)) == []
