"""The runs that a timetable plans."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
import pytest

from tests.shapes import dag_view, graph
from tests.unit.schemas.timetable.scheduled import on_schedule
from tidegate.daemon.read_model.plan import (
    Planned,
    list_planned,
    next_run,
    period_of,
    planned,
    ticks_after,
    ticks_from,
    timezone_of,
    upcoming_ticks,
)
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
DAILY, HOURLY = Cron(("0 0 * * *",)), Cron(("0 * * * *",))
SINCE = {"start_date": datetime(2026, 11, 1, tzinfo=UTC), "missed": "all"}


def dag(timetable: Timetable, last: datetime | None = None, *, spec: dict[str, Any] | None = None, **facts: Any) -> DagView:
    """A DAG with a timetable; `last` is when its last run fired."""
    tick = None if last is None else Tick(last, last, last, last)
    return dag_view(graph("a", timetable=timetable, **(spec or {})), last_tick=tick, **facts)


def fires(ticks: Any, count: int = 3) -> list[datetime]:
    return [tick.run_after for tick in islice(ticks, count)]


def test_planned_runs_follow_the_last_one() -> None:
    assert fires(upcoming_ticks(dag(DAILY, MIDNIGHT), NOW)) == [MIDNIGHT + DAY, MIDNIGHT + 2 * DAY, MIDNIGHT + 3 * DAY]


def test_with_catchup_missed_runs_come_first() -> None:
    assert fires(upcoming_ticks(dag(DAILY, MIDNIGHT - 2 * DAY, spec={"missed": "all"}), NOW), 2) == [MIDNIGHT - DAY, MIDNIGHT]


def test_without_catchup_only_the_latest_missed_run_comes() -> None:
    assert fires(upcoming_ticks(dag(DAILY, MIDNIGHT - 9 * DAY), NOW), 2) == [MIDNIGHT, MIDNIGHT + DAY]


def test_planned_runs_continue_after_one() -> None:
    view = dag(DAILY, MIDNIGHT - 3 * DAY, spec={"missed": "all"})
    first = list_planned(view, NOW, 2)

    assert [run.run_after for run in first] == [MIDNIGHT - 2 * DAY, MIDNIGHT - DAY]
    assert [run.run_after for run in list_planned(view, NOW, 2, last=first[-1])] == [MIDNIGHT, MIDNIGHT + DAY]
    further = dag(DAILY, MIDNIGHT, spec={"missed": "all"})
    assert [run.run_after for run in list_planned(further, NOW, 1, last=first[-1])] == [MIDNIGHT + DAY]


def test_planned_runs_after_a_time_continue_after_one() -> None:
    view, after = dag(DAILY, MIDNIGHT), MIDNIGHT - 9 * DAY
    first = list_planned(view, NOW, 2, due_after=after)

    assert [run.run_after for run in first] == [after + DAY, after + 2 * DAY]
    assert [run.run_after for run in list_planned(view, NOW, 1, due_after=after, last=first[-1])] == [after + 3 * DAY]
    assert [run.run_after for run in list_planned(view, NOW, 1, due_after=MIDNIGHT, last=first[-1])] == [MIDNIGHT + DAY]


def test_planned_runs_from_a_logical_date_continue_after_one() -> None:
    view, since = dag(DAILY, MIDNIGHT), MIDNIGHT - 9 * DAY
    first = list_planned(view, NOW, 2, since=since)

    assert [run.logical_date for run in first] == [since, since + DAY]
    assert [run.logical_date for run in list_planned(view, NOW, 1, since=since, last=first[-1])] == [since + 2 * DAY]


def test_a_date_that_has_a_run_is_passed_over() -> None:
    view = dag(DAILY, MIDNIGHT, run_dates=frozenset({MIDNIGHT + DAY}))

    assert fires(upcoming_ticks(view, NOW), 2) == [MIDNIGHT + 2 * DAY, MIDNIGHT + 3 * DAY]


def test_planned_runs_end_with_the_end_date() -> None:
    assert fires(upcoming_ticks(dag(DAILY, MIDNIGHT, spec={"end_date": MIDNIGHT + 2 * DAY}), NOW), 9) == [
        MIDNIGHT + DAY,
        MIDNIGHT + 2 * DAY,
    ]


def test_a_continuous_timetable_plans_one_run() -> None:
    assert len(fires(upcoming_ticks(dag(Continuous(), MIDNIGHT, spec={"limit": 1}), NOW), 9)) == 1


def test_a_dag_that_runs_once_does_not_run_again() -> None:
    assert fires(upcoming_ticks(dag(Once(), MIDNIGHT), NOW)) == []


@pytest.mark.parametrize("facts", [{"is_paused": True}, {"is_stale": True}])
def test_a_paused_or_stale_dag_has_no_next_run(facts: dict[str, Any]) -> None:
    assert next_run(dag(DAILY, MIDNIGHT, **facts), NOW) is None


def test_a_dag_without_a_timetable_has_no_next_run() -> None:
    assert next_run(None, NOW) is None


def test_the_next_run_has_its_data_interval() -> None:
    daily = Cron(("0 0 * * *",), mode="interval")
    view = dag_view(graph("a", timetable=daily), last_tick=Tick(MIDNIGHT - DAY, MIDNIGHT - DAY, MIDNIGHT, MIDNIGHT))

    assert next_run(view, NOW) == Planned(MIDNIGHT, MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT + DAY)


def test_runs_after_a_moment_may_lie_in_the_past() -> None:
    view = dag(DAILY, MIDNIGHT)

    assert fires(ticks_after(view, MIDNIGHT - 10 * DAY, NOW), 2) == [MIDNIGHT - 9 * DAY, MIDNIGHT - 8 * DAY]


@pytest.mark.parametrize("after", [MIDNIGHT + DAY, MIDNIGHT - 30 * DAY])
def test_a_delta_is_counted_from_its_last_run(after: datetime) -> None:
    view = dag(Every(seconds=3600), MIDNIGHT + timedelta(minutes=20))

    assert fires(ticks_after(view, after, NOW), 2) == [after + timedelta(minutes=20), after + timedelta(minutes=80)]


def test_a_delta_that_never_ran_is_counted_from_its_first_run() -> None:
    view = dag(Every(seconds=3600), spec={"start_date": MIDNIGHT + timedelta(days=3, minutes=5)})

    assert fires(ticks_after(view, MIDNIGHT + 4 * DAY, NOW), 1) == [MIDNIGHT + timedelta(days=4, minutes=5)]


def test_a_delta_whose_time_is_over_plans_nothing() -> None:
    over = {"start_date": MIDNIGHT - 9 * DAY, "end_date": MIDNIGHT - 8 * DAY}

    assert fires(ticks_after(dag(Every(seconds=3600), spec=over), NOW, NOW)) == []


TIMETABLES: list[Timetable] = [
    DAILY,
    HOURLY,
    Cron(("0 0 * * 1-5",), interval_s=86_400),
    Cron(("30 16 * * *", "0 4 * * *"), timezone="Europe/Zurich"),
    Cron(("0 0 * * *",), mode="interval"),
    Cron(("0 3 * * *",), timezone="America/New_York", mode="interval"),
    Every(seconds=86_400),
    Every(seconds=86_400, interval_s=3_600),
    Every(seconds=7_200, mode="interval"),
    Every(months=1),
    Dates((MIDNIGHT, MIDNIGHT + 2 * DAY, NOW)),
]


@pytest.mark.parametrize("timetable", TIMETABLES)
def test_a_moment_is_on_the_schedule_as_the_timetable_has_it(timetable: Timetable) -> None:
    view = dag(timetable, spec=SINCE)
    moments = [MIDNIGHT + timedelta(minutes=30) * step for step in range(-200, 200)]

    found = {moment: next(ticks_from(view, moment, NOW), None) for moment in moments}

    bounds = view.graph.bounds
    assert {m: t is not None and t.logical_date == m for m, t in found.items()} == {
        m: on_schedule(timetable, m, bounds) for m in moments
    }


@pytest.mark.parametrize("timetable", [*TIMETABLES, Once(), Continuous()])
def test_the_times_of_a_planned_run_are_ordered(timetable: Timetable) -> None:
    view = dag(timetable, spec={**SINCE, "limit": 1})

    runs = list_planned(view, NOW, 40)
    runs += list_planned(view, NOW, 40, due_after=MIDNIGHT - DAY)

    assert runs
    assert all(run.is_ordered for run in runs)


@pytest.mark.parametrize("times", [(2, 1, 1, 1), (1, 2, 2, 2), (1, 1, 2, 1)])
def test_other_times_are_not_ordered(times: tuple[int, ...]) -> None:
    assert not Planned(*(MIDNIGHT + DAY * time for time in times)).is_ordered


def test_for_a_date_off_the_schedule_the_next_one_is_found() -> None:
    tick = next(ticks_from(dag(DAILY), NOW, NOW), None)

    assert tick is not None
    assert tick.logical_date == MIDNIGHT + DAY


def test_a_continuous_timetable_has_no_dates() -> None:
    assert next(ticks_from(dag(Continuous(), spec={"limit": 1}), NOW, NOW), None) is None


def test_a_planned_run_in_a_time_zone() -> None:
    here = planned(Tick(MIDNIGHT, MIDNIGHT, NOW, NOW)).at("Europe/Zurich")

    assert msgspec.to_builtins(here)["logical_date"] == "2026-11-21T01:00:00+01:00"
    assert here.run_after == NOW


@pytest.mark.parametrize(
    ("timetable", "clock"), [(Cron(("0 0 * * *",), "Asia/Tokyo"), "Asia/Tokyo"), (Once(), "UTC"), (None, "UTC")]
)
def test_a_timetable_has_a_time_zone(timetable: Timetable | None, clock: str) -> None:
    assert timezone_of(timetable) == clock


@pytest.mark.parametrize("day", [date(2026, 3, 29), date(2026, 10, 25), date(2026, 11, 21)])
def test_a_day_is_as_long_as_in_its_time_zone(day: date) -> None:
    start, end = period_of(day.isoformat(), "Europe/Zurich")

    assert (end - start) / HOUR == {3: 23, 10: 25, 11: 24}[day.month]
    assert start.astimezone(UTC).hour in (22, 23)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-11-21T13:30", NOW),
        ("2026-11-21 13:30", NOW),
        ("2026-11-21T12:30Z", NOW),
        ("2026-11-21T07:30-05:00", NOW),
        ("2026-03-29T02:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-10-25T02:30", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_in_the_time_zone(given: str, expected: datetime) -> None:
    assert period_of(given, "Europe/Zurich")[0] == expected


@pytest.mark.parametrize("given", ["", "soon", "2026-13-01", "2026-11-21T25:00", "2026-11-21T12:30+99:00"])
def test_other_text_than_a_time_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        period_of(given, "UTC")


@pytest.mark.parametrize("given", ["0001-01-01", "9999-12-31", "9998-01-01T00:00", "0001-01-01T00:00+05:00", "1899-12-31"])
def test_a_time_out_of_range_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="is out of range; write a time from 1900-01-01 to 2200-01-01 UTC"):
        period_of(given, "America/New_York")


@pytest.mark.parametrize(("given", "has_next"), [("1900-01-01", True), ("2200-01-01", False), ("2199-01-01T00:00", False)])
def test_times_at_the_ends_of_the_range(given: str, has_next: bool) -> None:
    start, _ = period_of(given, "UTC")

    assert (next(ticks_from(dag(DAILY, spec={"end_date": MIDNIGHT}), start, NOW), None) is not None) == has_next
