"""Timed runs: which ticks get a run, and when the clock visits the DAG next."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.shapes import NOW, dag_view, graph, message, task
from tests.unit.handlers.timed_dags import at, clock, fired, minutes_of, scheduled, tick, timed, view
from tidegate.handlers import schedule_due
from tidegate.handlers.load import LockedDags
from tidegate.handlers.scheduling import timetable
from tidegate.handlers.scheduling.next_runs import RunEnd, schedule_after_ends
from tidegate.handlers.scheduling.timetable import upcoming_tick
from tidegate.schemas.effect.dag import UpdateSchedule
from tidegate.schemas.effect.run import InsertRun, RunMoved
from tidegate.schemas.effect.task import InsertTask
from tidegate.schemas.message import ScheduleDue
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron, Every
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

DUE = (-30, -20, -10)
SLOW: Mapping[str, Any] = {"missed_per_minute": 2}
HOURLY = graph("t", timetable=Cron(("0 * * * *",)), missed="all", run_immediately=False)


def test_a_tick_that_is_due_makes_a_run_and_the_timetable_goes_on() -> None:
    """R01 R04"""
    dag = graph("t", timetable=Cron(("0 * * * *",), mode="interval"), start_date=at(-60), max_active_tasks=5)

    effects = scheduled(view(dag))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.id, run.run_id, run.run_type, run.state) == (201, "scheduled__2024-05-01T11:00:00+00:00", "scheduled", "running")
    assert (run.logical_date, run.data_interval_start, run.data_interval_end, run.run_after) == (at(-60), at(-60), NOW, NOW)
    assert (run.max_active_tasks, run.start_date, run.conf) == (5, NOW, {})
    assert [effect.event.state for effect in effects if isinstance(effect, RunMoved)] == ["queued", "running"]
    assert [e for e in effects if isinstance(e, UpdateSchedule)] == [UpdateSchedule("d", at(-60), at(-60), NOW, at(60))]


@pytest.mark.parametrize(
    ("dag", "runs", "clocks"),
    [
        pytest.param(view(timed(*DUE, 10)), [-30, -20, -10], [(-10, 10)], id="R16 all that are due, in order"),
        pytest.param(view(timed(*DUE, 10, missed="latest")), [-10], [(-10, 10)], id="R16 the latest one"),
        pytest.param(view(timed(*DUE, 10, missed="skip")), [], [(None, 10)], id="R16 none that has passed"),
        pytest.param(view(timed(*DUE, 10), last_tick=tick(-20)), [-10], [(-10, 10)], id="only ticks after the last one"),
        pytest.param(view(timed(0)), [0], [(0, None)], id="one that is due this moment, and nothing will come"),
        pytest.param(view(timed(10)), [], [(None, 10)], id="one that is to come"),
        pytest.param(view(HOURLY, timed_since=at(-90)), [-60, 0], [(0, 60)], id="those since it has a timetable"),
        pytest.param(view(timed(10), due_at=at(10)), [], [], id="the clock is set already"),
        pytest.param(view(timed(-10), last_tick=tick(-10)), [], [], id="nothing will come, and the clock knows"),
        pytest.param(view(timed(-10), last_tick=tick(-10), due_at=NOW), [], [(-10, None)], id="nothing will come any more"),
        pytest.param(view(timed(*DUE), run_dates=frozenset({at(-30)})), [-20, -10], [(-10, None)], id="a date that has a run"),
        pytest.param(view(timed(*DUE), run_dates=frozenset({at(-20)})), [-30, -10], [(-10, None)], id="one between has a run"),
        pytest.param(
            view(timed(*DUE, 10), run_dates=frozenset(map(at, (*DUE, 10)))), [], [], id="every date has a run, also those to come"
        ),
        pytest.param(view(timed(*DUE, limit=2)), [-30, -20], [(-20, None)], id="R05 no more than the limit"),
        pytest.param(view(timed(*DUE, limit=2), running=1), [-30], [(-30, None)], id="R05 running runs take slots"),
        pytest.param(view(timed(*DUE, limit=2), running=2), [], [], id="R05 no capacity"),
        pytest.param(
            view(timed(-40, *DUE, limit=1, missed="latest"), last_tick=tick(-40)), [-10], [(-10, None)], id="a slot after ticks"
        ),
        pytest.param(view(timed(*DUE, limit=2), running=2, due_at=NOW), [], [(None, None)], id="no capacity until a run ends"),
        pytest.param(view(timed(10, limit=2), running=2), [], [(None, 10)], id="without capacity, the next tick wakes it"),
        pytest.param(dag_view(timed(*DUE, 10)), [], [(None, -30)], id="without ids it wakes at once"),
        pytest.param(
            dag_view(timed(*DUE, 10), timed_run_ids=(1,)), [-30], [(-30, -20)], id="with too few ids it wakes again"
        ),
        pytest.param(view(timed(*DUE), is_paused=True), [], [], id="paused"),
        pytest.param(view(timed(*DUE), is_stale=True, due_at=NOW), [], [(None, None)], id="in no file"),
        pytest.param(
            view(timed(*DUE), is_paused=True, due_at=NOW, last_tick=tick(-30)), [], [(-30, None)], id="paused, it keeps its place"
        ),
        pytest.param(view(timed(*DUE, tasks=("t!",), limit=1)), [-30, -20, -10], [(-10, None)], id="it ends at once"),
        pytest.param(view(timed(*DUE, 10, **SLOW)), [-30], [(-30, 0.5)], id="no more late ones in a minute than may"),
        pytest.param(view(timed(*DUE, -0.5, **SLOW), last_tick=tick(-20)), [-10, -0.5], [(-0.5, None)], id="late and not late"),
        pytest.param(view(timed(-0.5, 0, 10, **SLOW)), [-0.5, 0], [(0, 10)], id="ticks in time are not delayed"),
        pytest.param(view(timed(*DUE, **SLOW), catchup_until=at(0.4)), [], [(None, 0.4)], id="one has just started"),
        pytest.param(
            view(timed(*DUE, **SLOW), catchup_until=at(0.4), due_at=NOW), [], [(None, 0.4)], id="something else is due"
        ),
        pytest.param(view(timed(*DUE, **SLOW), catchup_until=NOW), [-30], [(-30, 0.5)], id="the pause is over"),
        pytest.param(view(timed(*DUE, **SLOW), catchup_until=at(0.6)), [-30], [(-30, 0.5)], id="the interval was longer before"),
        pytest.param(view(timed(*DUE, limit=1, **SLOW)), [-30], [(-30, 0.5)], id="without capacity the interval goes on"),
        pytest.param(view(timed(*DUE, limit=1, **SLOW), running=1), [], [], id="once it is over the end of a run will do"),
        pytest.param(view(timed(-10, **SLOW)), [-10], [(-10, None)], id="the last one that was missed"),
        pytest.param(view(graph("t")), [], [], id="no timetable"),
        pytest.param(view(graph("t"), due_at=NOW), [], [(None, None)], id="no timetable any more"),
    ],
)  # fmt: skip
def test_due_ticks_make_runs_while_there_is_capacity(
    dag: DagView, runs: Sequence[float], clocks: Sequence[tuple[float | None, float | None]]
) -> None:
    effects = scheduled(dag)

    assert (fired(effects), clock(effects)) == (runs, clocks)


MANY = (-50, -40, -30, -20, -10, 10)


@pytest.mark.parametrize(
    ("dag", "dates", "runs", "clocks"),
    [
        pytest.param(MANY, (-50, -40), [], [(-40, -30)], id="the next one may have a run"),
        pytest.param(MANY, (-40, -30), [-50], [(-30, -20)], id="the first one has none"),
        pytest.param(MANY, (-50, -10), [-40, -30, -20], [(-10, 10)], id="those between have none"),
        pytest.param(MANY, (-50, -45), [], [(-50, -40)], id="also dates that are no tick have runs"),
        pytest.param((-10, 0, 10), (-10, 0), [], [(0, 10)], id="one that is due this moment is passed"),
        pytest.param((10, 20, 30), (10, 20), [], [(None, 30)], id="those to come are not passed"),
    ],
)
def test_ticks_are_passed_in_parts_where_many_dates_have_runs(
    dag: Sequence[float],
    dates: Sequence[float],
    runs: Sequence[float],
    clocks: Sequence[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the dates that have runs, the first two were read."""
    monkeypatch.setattr(timetable, "MAX_RUN_DATES", 2)

    effects = scheduled(view(timed(*dag), run_dates=frozenset(map(at, dates))))

    assert (fired(effects), clock(effects)) == (runs, clocks)


@pytest.mark.parametrize(
    ("facts", "until"), [({}, 0.5), ({"catchup_until": at(0.4)}, 0.4)], ids=["a late run begins one", "nothing starts"]
)
def test_the_end_of_the_catchup_interval_is_stored(facts: Mapping[str, Any], until: float) -> None:
    (stored,) = (effect for effect in scheduled(view(timed(*DUE, 10, **SLOW), **facts)) if isinstance(effect, UpdateSchedule))

    assert stored.catchup_until == at(until)


def test_the_end_of_a_run_frees_capacity_for_the_next_tick() -> None:
    """R06"""
    dag = view(timed(*DUE, limit=1), running=1, last_tick=tick(-30))

    effects = list(schedule_after_ends(dag, [RunEnd(RunState.SUCCESS)], NOW))

    assert (fired(effects), clock(effects)) == ([-20], [(-20, None)])


def test_the_clock_schedules_every_dag_it_visits() -> None:
    dags = tuple(view(timed(minutes)) for minutes in (-10, 10))

    effects = list(schedule_due.decide([message(ScheduleDue(dag_id="d"))], LockedDags(NOW, dags)))

    assert (fired(effects), clock(effects)) == ([-10], [(-10, None), (None, 10)])


def test_a_dag_whose_start_is_to_come_has_no_run_before() -> None:
    """R17"""
    dag = graph("t", timetable=Every(seconds=600), start_date=at(25), missed="all")

    effects = scheduled(view(dag))

    assert (fired(effects), clock(effects)) == ([], [(None, 25)])


def test_a_task_that_starts_later_is_a_part_of_its_own_dates_only() -> None:
    """R17"""
    effects = scheduled(view(timed(*DUE, tasks=("t", task("u", start_date=at(-20), end_date=at(-20))))))

    inserted = [effect for effect in effects if isinstance(effect, InsertTask) and effect.task_id == "u"]
    assert [task.instance.state for task in inserted] == ["removed", "scheduled", "removed"]


def test_runs_without_tasks_take_no_slot() -> None:
    """R17: else a DAG at its limit would wait for the end of runs that have ended."""
    effects = scheduled(view(timed(*DUE, tasks=(task("t", start_date=at(-10)),), limit=1)))

    states = [(minutes_of(run.logical_date), run.state) for run in effects if isinstance(run, InsertRun)]
    assert states == [(-30, "success"), (-20, "success"), (-10, "running")]


def test_a_timetable_that_returns_to_earlier_dates_continues_after_the_last_tick() -> None:
    """A longer data interval moves the logical dates back; each of them has one run."""
    dag = view(graph("t", timetable=Cron(("*/10 * * * *",), interval_s=1200.0), start_date=at(-60)), last_tick=tick(-10))

    assert upcoming_tick(dag, at(-5)) == Tick(NOW, NOW, at(20), at(20))


def test_a_period_does_not_begin_at_the_date_of_the_last_run() -> None:
    """A continuous timetable gives a run that follows an empty interval the date of its end."""
    dag = graph("t", timetable=Cron(("*/10 * * * *",), mode="interval"), start_date=at(-60), missed="all")

    assert upcoming_tick(view(dag, last_tick=Tick(NOW, at(-10), NOW, NOW)), at(5)) == Tick(at(10), at(10), at(20), at(20))
