"""Which dates come next, and which of them get a run."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.shapes import NOW, graph
from tidegate.handlers.backfills.dates import Plan, cut_plan, next_ticks, plan_dates, plan_next, why_no_run
from tidegate.schemas.backfill import BackfillView, ExistingRun, Reprocess, overlaps
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron, Every
from tidegate.schemas.timetable.tick import Tick

DAY = timedelta(days=1)
DAILY = graph("t", timetable=Cron(("0 12 * * *",)))


def backfill(first: int = -5, last: int = -1, **facts: Any) -> BackfillView:
    """Of days relative to NOW."""
    given = {"dag_id": "d", "start_date": NOW + first * DAY, "end_date": NOW + last * DAY, **facts}
    return BackfillView(id=1, **{"version_id": 1, "horizon": NOW, **given})


def days(view: BackfillView, most: int = 10) -> list[int]:
    return [(tick.logical_date - NOW).days for tick in next_ticks(view, DAILY, most)]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(backfill(), [-5, -4, -3, -2, -1], id="all"),
        pytest.param(backfill(planned_until=NOW - 3 * DAY), [-2, -1], id="the ones left"),
        pytest.param(backfill(is_reverse=True), [-1, -2, -3, -4, -5], id="reverse"),
        pytest.param(backfill(is_reverse=True, planned_until=NOW - 3 * DAY), [-4, -5], id="the ones left in reverse"),
        pytest.param(backfill(last=3), [-5, -4, -3, -2, -1, 0], id="not the future"),
        pytest.param(backfill(logical_dates=(NOW - DAY, NOW - 3 * DAY)), [-3, -1], id="a list"),
        pytest.param(backfill(-3, -1, logical_dates=(NOW - DAY, NOW - 3 * DAY)), [-3, -1], id="a list with both bounds"),
        pytest.param(backfill(logical_dates=(NOW - DAY, NOW - 3 * DAY), planned_until=NOW - 3 * DAY), [-1], id="a list's rest"),
        pytest.param(backfill(logical_dates=(NOW - DAY, NOW - 3 * DAY), is_reverse=True), [-1, -3], id="a list in reverse"),
    ],
)
def test_dates_come_in_order_up_to_the_horizon(view: BackfillView, expected: list[int]) -> None:
    assert days(view) == expected
    assert days(view, 1) == expected[:1]


EVERY_TWO_DAYS = graph("t", timetable=Every(seconds=2 * 86400), start_date=NOW - 7 * DAY)


@pytest.mark.parametrize(
    ("view", "of", "expected"),
    [
        pytest.param(backfill(), EVERY_TWO_DAYS, [-5, -3, -1], id="the start date of the DAG"),
        pytest.param(backfill(is_reverse=True), EVERY_TWO_DAYS, [-1, -3, -5], id="in reverse"),
        pytest.param(backfill(-35), graph("t", timetable=Every(months=1)), [-35, -4], id="months from the first date"),
    ],
)
def test_periods_count_from_a_start(view: BackfillView, of: Graph, expected: list[int]) -> None:
    assert [(tick.logical_date - NOW).days for tick in next_ticks(view, of, 10)] == expected


def test_a_listed_date_has_the_data_interval_of_its_timetable() -> None:
    of = graph("t", timetable=Cron(("0 12 * * *",), interval_s=86400))

    assert next_ticks(backfill(logical_dates=(NOW - DAY,)), of, 1) == [
        Tick(NOW - DAY, interval_start=NOW - 2 * DAY, interval_end=NOW - DAY, run_after=NOW - DAY)
    ]


def test_a_date_whose_interval_has_not_ended_is_not_due() -> None:
    by_interval = graph("t", timetable=Cron(("0 12 * * *",), mode="interval"))

    found = next_ticks(backfill(last=0), by_interval, 10)

    assert [tick.logical_date for tick in found][-1] == NOW - DAY


@pytest.mark.parametrize(
    ("state", "reprocess", "reason"),
    [
        (None, Reprocess.NONE, None),
        (RunState.SUCCESS, Reprocess.NONE, "its run 'r' ended as success; reprocess=none leaves it"),
        (RunState.FAILED, Reprocess.NONE, "its run 'r' ended as failed; reprocess=none leaves it"),
        (RunState.SUCCESS, Reprocess.FAILED, "its run 'r' ended as success; reprocess=failed leaves it"),
        (RunState.FAILED, Reprocess.FAILED, None),
        (RunState.SUCCESS, Reprocess.COMPLETED, None),
        (RunState.FAILED, Reprocess.COMPLETED, None),
        (RunState.QUEUED, Reprocess.COMPLETED, "its run 'r' is queued"),
        (RunState.RUNNING, Reprocess.COMPLETED, "its run 'r' is running"),
    ],
)
def test_an_existing_run_runs_again_or_stays(state: RunState | None, reprocess: Reprocess, reason: str | None) -> None:
    assert why_no_run(ExistingRun(1, "r", state) if state else None, reprocess) == reason


@pytest.mark.parametrize(
    ("slots", "existing", "expected"),
    [
        pytest.param(0, {}, [], id="no slot"),
        pytest.param(2, {}, [(1, True), (2, True)], id="two slots"),
        pytest.param(9, {}, [(n, True) for n in range(1, 6)], id="slots for all"),
        pytest.param(1, {-5: 7, -3: 8}, [(1, False), (2, True), (3, False)], id="what gets no run needs no slot"),
    ],
)
def test_dates_are_planned_until_the_slots_are_taken(
    slots: int, existing: Mapping[int, int], expected: list[tuple[int, bool]]
) -> None:
    found: Mapping[datetime, ExistingRun] = {
        NOW + day * DAY: ExistingRun(id_, "r", RunState.SUCCESS) for day, id_ in existing.items()
    }
    view = backfill()

    planned = plan_dates(view, next_ticks(view, DAILY, 10), found, slots)

    assert [(date.ordinal, date.reason is None) for date in planned] == expected


def test_ordinals_go_on_date_by_date() -> None:
    view = backfill(dates=7)

    planned = plan_dates(view, next_ticks(view, DAILY, 2), {}, 5)

    assert [(date.ordinal, date.tick.logical_date) for date in planned] == [(8, NOW - 5 * DAY), (9, NOW - 4 * DAY)]


@pytest.mark.parametrize(
    ("view", "first", "last", "dates", "expected"),
    [
        pytest.param(backfill(-5, -1), -1, 3, None, True, id="ranges that touch"),
        pytest.param(backfill(-5, -1), 0, 3, None, False, id="ranges apart"),
        pytest.param(backfill(-5, -1), -9, -2, (-9, -2), True, id="a list with a date of the range"),
        pytest.param(backfill(-5, -1), -9, 2, (-9, 2), False, id="a list around the range"),
        pytest.param(backfill(-5, -1, logical_dates=(NOW - 5 * DAY, NOW - DAY)), -4, -2, None, False, id="a range between dates"),
        pytest.param(backfill(-5, -1, logical_dates=(NOW - 5 * DAY, NOW - DAY)), -4, -1, None, True, id="a range with a date"),
        pytest.param(backfill(-5, -1, logical_dates=(NOW - 5 * DAY, NOW - DAY)), -4, -1, (-4, -1), True, id="lists in common"),
        pytest.param(backfill(-5, -1, logical_dates=(NOW - 5 * DAY, NOW - DAY)), -4, -2, (-4, -2), False, id="lists apart"),
    ],
)
def test_two_backfills_have_a_date_in_common_or_none(
    view: BackfillView, first: int, last: int, dates: tuple[int, ...] | None, *, expected: bool
) -> None:
    others = None if dates is None else [NOW + day * DAY for day in dates]

    assert overlaps(view, NOW + first * DAY, NOW + last * DAY, others) is expected


@pytest.mark.parametrize(
    ("slots", "most", "planned", "more", "has_free_slots"),
    [
        pytest.param(2, 3, 2, True, False, id="the slots are taken"),
        pytest.param(9, 10, 5, False, False, id="all dates are planned"),
        pytest.param(9, 5, 5, True, True, id="others may follow"),
    ],
)
def test_a_plan_says_whether_others_follow(slots: int, most: int, planned: int, *, more: bool, has_free_slots: bool) -> None:
    view = backfill(reprocess=Reprocess.FAILED)
    existing = {NOW - 5 * DAY: ExistingRun(7, "r", RunState.FAILED)}

    plan = plan_next(view, next_ticks(view, DAILY, most), existing, slots, most)

    assert (len(plan.dates), plan.more, plan.has_free_slots) == (planned, more, has_free_slots)
    assert (plan.again, plan.new) == ([7], planned - 1)


@pytest.mark.parametrize(
    ("first", "dates", "has_more"),
    [
        pytest.param({7, 8}, 5, False, id="both runs"),
        pytest.param({7}, 3, True, id="without the second run"),
        pytest.param(set[int](), 0, True, id="without the first run"),
    ],
)
def test_a_plan_is_cut_before_a_run_that_comes_later(first: set[int], dates: int, *, has_more: bool) -> None:
    """The dates after it follow in its order."""
    view = backfill(reprocess=Reprocess.COMPLETED)
    existing = {NOW - day * DAY: ExistingRun(id_, "r", RunState.SUCCESS) for day, id_ in ((5, 7), (2, 8))}
    ticks = next_ticks(view, DAILY, 9)
    plan = Plan(tuple(plan_dates(view, ticks, existing, 9)))

    cut = cut_plan(plan, first)

    assert (len(cut.dates), cut.more, cut.has_free_slots) == (dates, has_more, has_more)
