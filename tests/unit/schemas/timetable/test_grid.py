"""Ticks at whole periods of months from an anchor, near it and far from it."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tidegate.schemas.timetable import wallclock
from tidegate.schemas.timetable.spec import Every
from tidegate.schemas.timetable.tick_times import Grid, months_later

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


def test_a_walk_over_months_of_a_century_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision asks for the tick after a time, and for the one before it, again and again."""
    steps: list[datetime] = []
    instant_of = wallclock.instant

    def counted(wall: datetime, clock: str) -> datetime:
        steps.append(wall)
        return instant_of(wall, clock)

    monkeypatch.setattr(wallclock, "instant", counted)
    grid = Grid(Every(months=1, seconds=1, timezone=ZONE), datetime(1926, 5, 1, tzinfo=UTC))
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    begin = grid.until(now)
    walked = len(steps)
    end = grid.after(now)

    assert begin <= now < end
    assert walked > 1200
    assert len(steps) == walked
