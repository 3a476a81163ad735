"""Properties of the runs of every cron expression, across clock changes."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from random import Random

import pytest

from tests.unit.schemas.timetable.scheduled import on_schedule
from tests.unit.schemas.timetable.transitions import EXPRESSIONS, SEED, odd_changes
from tidegate.schemas.timetable.spec import Cron, Mode
from tidegate.schemas.timetable.tick import Bounds, manual_interval, next_tick, runs_after
from tidegate.schemas.timetable.tick_times import Ticks, ticks_of

INSTANT = timedelta(microseconds=1)
CHANGES = list(odd_changes(Random(SEED)))


@pytest.fixture(params=CHANGES, ids=lambda change: change.zone)
def drawn(request: pytest.FixtureRequest) -> list[tuple[Cron, datetime]]:
    """Timetables in interval mode, each with a moment near a change of its clocks."""
    chance = Random(SEED)
    begin = request.param.at.replace(tzinfo=UTC) - timedelta(hours=30)
    moments = [begin + timedelta(seconds=chance.randrange(60 * 3600)) for _ in EXPRESSIONS]
    return [(Cron((text,), request.param.zone, "interval"), at) for text, at in zip(EXPRESSIONS, moments, strict=True)]


def test_a_manual_run_has_one_whole_period_and_the_latest(drawn: list[tuple[Cron, datetime]]) -> None:
    for timetable, at in drawn:
        start, end = manual_interval(timetable, at)

        assert whole_and_latest(ticks_of(timetable), start, end, at), (timetable, at, f"again with TEST_SEED={SEED}")


def test_a_first_run_without_catchup_has_one_whole_period_and_the_latest(drawn: list[tuple[Cron, datetime]]) -> None:
    for timetable, at in drawn:
        tick = next_tick(timetable, None, Bounds(), at)

        assert tick
        assert whole_and_latest(ticks_of(timetable), tick.interval_start, tick.interval_end, at), (timetable, at, SEED)


def whole_and_latest(ticks: Ticks, start: datetime, end: datetime, at: datetime) -> bool:
    """Whether one tick begins the period, the next ends it, and no later one has passed."""
    return ticks.after(start - INSTANT) == start and ticks.after(start) == end <= at < (ticks.after(end) or at + INSTANT)


def test_with_catchup_periods_follow_each_other_without_a_gap(drawn: list[tuple[Cron, datetime]]) -> None:
    for timetable, at in drawn:
        runs = list(islice(runs_after(timetable, at), 5))

        assert all(run.interval_end == following.interval_start for run, following in pairwise(runs)), (timetable, at, SEED)
        assert all(run.interval_start < run.interval_end == run.run_after for run in runs), (timetable, at, SEED)


@pytest.mark.parametrize("mode", ["trigger", "interval"])
def test_every_planned_run_is_on_schedule_and_has_a_logical_date_of_its_own(
    drawn: list[tuple[Cron, datetime]], mode: Mode
) -> None:
    for shape, at in drawn:
        timetable = Cron(shape.expressions, shape.timezone, mode)

        runs = list(islice(runs_after(timetable, at), 5))

        assert all(on_schedule(timetable, run.logical_date) for run in runs), (timetable, at, SEED)
        assert len({run.logical_date for run in runs}) == len(runs), (timetable, at, SEED)


def test_the_tick_after_the_last_one_until_a_moment_is_the_next_one(drawn: list[tuple[Cron, datetime]]) -> None:
    for timetable, at in drawn:
        ticks = ticks_of(timetable)

        last = ticks.until(at)

        assert last
        assert ticks.after(last) == ticks.after(at), (timetable, at, SEED)
