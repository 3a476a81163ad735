"""Ticks at whole periods of months from an anchor, near it and far from it."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from tidegate.schemas.timetable import tick_times, wallclock
from tidegate.schemas.timetable.spec import Every
from tidegate.schemas.timetable.tick_times import LINK_SPAN, Grid, months_later

ZONE = "Europe/Zurich"


@pytest.mark.parametrize("day", [28, 29, 30, 31])
@pytest.mark.parametrize("months", [1, 2, 5, 12, 48])
@pytest.mark.parametrize("instant", [datetime(2030, 3, 31, 4, tzinfo=UTC), datetime(2199, 6, 1, tzinfo=UTC)])
def test_ticks_far_from_the_anchor_are_those_of_a_walk(day: int, months: int, instant: datetime) -> None:
    anchor = datetime(1904, 1, day, 2, 30, tzinfo=UTC)
    walls = [wallclock.local(anchor, ZONE)]
    while walls[-1].year < 2200 + months // 12:
        walls.append(months_later(walls[-1], months))
    ticks = [wallclock.instant(wall, ZONE) for wall in walls]
    around = next((last, coming) for last, coming in pairwise(ticks) if coming > instant)

    grid = Grid(Every(months=months, timezone=ZONE), anchor)

    assert (grid.until(instant), grid.after(instant)) == around


@pytest.mark.parametrize("day", [28, 31])
def test_ticks_long_before_the_anchor_are_those_of_a_walk(day: int) -> None:
    anchor, instant = datetime(2199, 12, day, 2, 30, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC)
    walls = [wallclock.local(anchor, ZONE)]
    while walls[-1].year > 2025:
        walls.append(months_later(walls[-1], -1))
    ticks = [wallclock.instant(wall, ZONE) for wall in walls]
    around = next((last, coming) for coming, last in pairwise(ticks) if last <= instant)

    grid = Grid(Every(months=1, timezone=ZONE), anchor)

    assert (grid.until(instant), grid.after(instant)) == around


@pytest.mark.parametrize("months_and_seconds", [(1, 1), (1, 0)])
def test_each_tick_of_a_century_is_made_once(monkeypatch: pytest.MonkeyPatch, months_and_seconds: tuple[int, int]) -> None:
    """A run that a DAG catches up asks for the tick after the last one, and so does each run of a backfill."""
    steps: list[int] = []
    months, seconds = months_and_seconds

    def counted(wall: datetime, months: int) -> datetime:
        steps.append(months)
        return months_later(wall, months)

    monkeypatch.setattr(tick_times, "months_later", counted)
    anchor = datetime(1926, 5, 31, 12, tzinfo=UTC)
    grid = Grid(Every(months=months, seconds=seconds, timezone=ZONE), anchor)

    onwards = list(islice(grid.walk(anchor, is_reverse=False), 1200))
    backwards = list(islice(grid.walk(onwards[-1], is_reverse=True), 1200))

    assert onwards == backwards[::-1]
    most = 1200 + LINK_SPAN // timedelta(days=28)  # The last link is made whole.
    assert len(steps) <= most
    assert grid.after(onwards[600]) == onwards[601]
    assert grid.until(onwards[600]) == onwards[600]
    assert len(steps) <= most


def test_a_tick_before_the_anchor_is_one_period_before_the_next() -> None:
    grid = Grid(Every(months=1, seconds=86400), datetime(2026, 5, 31, tzinfo=UTC))

    assert grid.after(datetime(2026, 4, 2, tzinfo=UTC)) == datetime(2026, 4, 29, tzinfo=UTC)
    assert grid.until(datetime(2026, 4, 2, tzinfo=UTC)) == datetime(2026, 3, 28, tzinfo=UTC)
    assert grid.after(datetime(2026, 4, 29, tzinfo=UTC)) == datetime(2026, 5, 31, tzinfo=UTC)
