"""Deadlines: their due times, what meets them, and the effects of a missed one."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from time import tzset
from typing import Any

import pytest
from msgspec import UNSET

from tests.shapes import NOW, graph, message, run_update, run_view, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import deadline_due
from tidegate.handlers.runs.deadlines import due_at
from tidegate.schemas.dag import DeadlineSpec
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import InsertDeadline, MeetDeadlines, MissDeadline, Notify
from tidegate.schemas.effect.run import RunMoved, UpdateRun
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import DeadlineDue
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.receiver import Callback, FunctionReceiver, On
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import DeadlineView, RunView

HOUR = DeadlineSpec(name="hour", after_s=3600.0, since="queued_at")
DATE = datetime(2024, 3, 30, 22, 0, tzinfo=UTC)
"""The evening before the clocks of Zurich are put forward: 23:00 there."""

TELL = FunctionReceiver("tell")


def by(at: time, zone: str = "Europe/Zurich") -> DeadlineSpec:
    return DeadlineSpec(name="by then", at=at, timezone=zone)


def utc(*at: int) -> datetime:
    return datetime(*at, tzinfo=UTC)  # type: ignore[arg-type, misc]  # as many parts as a date has


@pytest.mark.parametrize(
    ("spec", "logical_date", "expected"),
    [
        pytest.param(DeadlineSpec(name="x", after_s=60.0), DATE, DATE + timedelta(minutes=1), id="after the logical date"),
        pytest.param(
            DeadlineSpec(name="x", after_s=60.0), None, NOW + timedelta(minutes=1), id="after run_after, without a date"
        ),
        pytest.param(HOUR, DATE, NOW + timedelta(hours=3), id="after it was queued"),
        pytest.param(by(time(23, 30)), DATE, utc(2024, 3, 30, 22, 30), id="a time later on that day"),
        pytest.param(by(time(23, 0)), DATE, DATE, id="the very moment"),
        pytest.param(by(time(23, 30)), utc(2024, 3, 30, 22, 7, 8, 9), utc(2024, 3, 30, 22, 30), id="a date within a minute"),
        pytest.param(by(time(23, 7, 8, 9)), DATE, utc(2024, 3, 30, 22, 7, 8, 9), id="a time within a minute"),
        pytest.param(by(time(22, 59, 59)), DATE, utc(2024, 3, 31, 20, 59, 59), id="a time earlier on that day is the next day's"),
        pytest.param(by(time(9)), DATE, utc(2024, 3, 31, 7, 0), id="in summer time, the morning after"),
        pytest.param(by(time(2, 30)), DATE, utc(2024, 3, 31, 1, 30), id="a time that the clocks skip comes that much later"),
        pytest.param(by(time(9), "UTC"), DATE, utc(2024, 3, 31, 9, 0), id="in another zone"),
        pytest.param(by(time(9), "UTC"), None, utc(2024, 5, 2, 9, 0), id="after run_after, where there is no date"),
        pytest.param(by(time(0)), utc(1, 1, 1), utc(1900, 1, 1, 23), id="a date before all calendars"),
        pytest.param(HOUR, datetime.max.replace(tzinfo=UTC), NOW + timedelta(hours=3), id="a date at the end of time"),
    ],
)
def test_a_deadline_has_a_due_time(spec: DeadlineSpec, logical_date: datetime | None, expected: datetime) -> None:
    run = run_view(logical_date=logical_date)

    assert due_at(spec, run, NOW + timedelta(hours=2)) == expected


def test_a_time_that_comes_twice_is_the_second_one() -> None:
    run = run_view(logical_date=utc(2024, 10, 26, 22, 0))

    assert due_at(by(time(2, 30)), run, NOW) == utc(2024, 10, 27, 1, 30)


def met(effects: Sequence[Effect]) -> list[str | None]:
    return [effect.task_id for effect in effects if isinstance(effect, MeetDeadlines)]


@pytest.mark.parametrize("waits", [False, True])
def test_a_run_gets_its_deadlines_when_it_is_created(waits: bool) -> None:
    minute = DeadlineSpec(name="date", after_s=60.0)
    dag = graph("a", task("b", deadlines=(by(time(13), "UTC"), HOUR)), deadlines=(HOUR, minute))

    world = SimulatedRun(dag, waits=waits, logical_date=NOW)

    hour = NOW + timedelta(hours=1)
    assert world.others == [
        InsertDeadline(1, None, "hour", hour),
        InsertDeadline(1, None, "date", NOW + timedelta(minutes=1)),
        InsertDeadline(1, "b", "by then", hour),
        InsertDeadline(1, "b", "hour", hour),
    ]


@pytest.mark.parametrize(("late_s", "names"), [(60.0, ["hour", "date", "by then", "hour"]), (60.1, ["hour", "by then", "hour"])])
def test_a_run_that_is_made_after_the_time_of_a_deadline_does_not_have_it(late_s: float, names: list[str]) -> None:
    minute = DeadlineSpec(name="date", after_s=60.0)
    dag = graph("a", task("b", deadlines=(by(time(13), "UTC"), HOUR)), deadlines=(HOUR, minute))

    found = SimulatedRun(dag, logical_date=NOW - timedelta(seconds=late_s)).others
    of_a_backfill = SimulatedRun(dag, logical_date=DATE).others

    assert [effect.name for effect in found if isinstance(effect, InsertDeadline)] == names
    assert [(effect.task_id, effect.name) for effect in of_a_backfill if isinstance(effect, InsertDeadline)] == [
        (None, "hour"),
        ("b", "hour"),
    ]


def test_a_run_without_deadlines_has_no_deadline_effects() -> None:
    world = SimulatedRun(graph("a", "b < a"))

    world.admit("a")
    world.finish(a=True)
    world.admit("b")
    world.finish(b=True)

    assert world.others == []


@pytest.mark.parametrize("end", [True, False, TaskState.SKIPPED])
def test_an_ended_task_has_met_its_deadlines_in_any_end_state(end: Any) -> None:
    world = SimulatedRun(graph(task("a", deadlines=(HOUR,)), task("b", deadlines=(HOUR,)), deadlines=(HOUR,)))
    world.others.clear()

    world.admit("a", "b")
    world.finish(a=end)

    assert met(world.others) == ["a"]


def test_a_retried_task_has_not_met_its_deadlines() -> None:
    world = SimulatedRun(graph(task("a*1", deadlines=(HOUR,))))
    world.others.clear()

    world.admit("a")
    world.finish(a=False)

    assert met(world.others) == []


def test_an_absent_task_has_met_its_deadlines() -> None:
    dag = graph("a", task("b", deadlines=(HOUR,), start_date=NOW + timedelta(days=1)))

    world = SimulatedRun(dag, logical_date=NOW)

    assert met(world.others) == ["b"]


@pytest.mark.parametrize("end", [True, False])
def test_the_end_of_a_run_meets_all_open_deadlines(end: bool) -> None:
    world = SimulatedRun(graph("a", deadlines=(HOUR,)))
    world.others.clear()

    world.admit("a")
    world.finish(a=end)

    assert [it for it in world.others if isinstance(it, MeetDeadlines)] == [MeetDeadlines(1, None, NOW)]


def test_a_run_that_ends_at_its_start_meets_its_deadlines() -> None:
    world = SimulatedRun(graph("a!", deadlines=(HOUR,)))

    assert [type(effect) for effect in world.others] == [InsertDeadline, MeetDeadlines]


def test_a_failed_run_has_met_its_deadlines() -> None:
    world = SimulatedRun(graph("a", deadlines=(HOUR,)))
    world.others.clear()

    world.reconsider(stop="enough")

    assert met(world.others) == [None]


def missed(dag: Graph, run: RunView, *passed: DeadlineView) -> list[Effect]:
    state = deadline_due.State(NOW, passed, {run.id: run}, {dag.version_id: dag})
    return well_formed(deadline_due.decide([message(DeadlineDue(deadline_id=each.id)) for each in passed], state))


DUE = NOW - timedelta(seconds=1)


@pytest.mark.parametrize("state", list(RunState))
def test_a_missed_deadline_is_one_record_and_one_event_and_moves_nothing(state: RunState) -> None:
    run = run_view(state=state, state_seq=4, task_seq=9, failed_leaves=1, active_tasks=2)

    effects = missed(graph("a", deadlines=(HOUR,)), run, DeadlineView(7, run.id, None, "hour", DUE))

    (record, told, update) = effects
    assert record == MissDeadline(7, 5, NOW)
    assert isinstance(told, RunMoved)
    assert told.dag_run_id == run.id
    assert (told.event.seq, told.event.state, told.event.at) == (5, state, NOW)
    assert told.event.missed_deadline == MissedDeadline(name="hour", due_at=DUE)
    assert told.event.reason == "missed the deadline 'hour' of 2024-05-01 11:59:59 UTC"
    assert update == run_update(run, state_seq=5)


def test_the_time_of_a_missed_deadline_is_told_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the host is."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()

    (_, told, _) = missed(graph("a"), run_view(), DeadlineView(7, 1, None, "hour", DUE))

    monkeypatch.undo()
    tzset()
    assert isinstance(told, RunMoved)
    assert told.event.reason == "missed the deadline 'hour' of 2024-05-01 11:59:59 UTC"


def test_several_missed_deadlines_of_a_run_are_numbered_without_a_gap() -> None:
    run = run_view(state=RunState.RUNNING, state_seq=2)
    passed = [DeadlineView(7, 1, None, "hour", DUE), DeadlineView(8, 1, "a", "soon", DUE)]

    effects = missed(graph("a"), run, *passed)

    events = [effect.event for effect in effects if isinstance(effect, RunMoved)]
    assert [(event.seq, event.missed_deadline) for event in events] == [
        (3, MissedDeadline(name="hour", due_at=DUE)),
        (4, MissedDeadline(name="soon", due_at=DUE, task_id="a")),
    ]
    assert events[1].reason.startswith("task 'a' missed the deadline 'soon'")
    assert [effect.state_seq for effect in effects if isinstance(effect, UpdateRun)] == [4]


def test_without_locked_deadlines_nothing_changes() -> None:
    """R26: a locked row was not loaded."""
    assert missed(graph("a"), run_view()) == []


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [(None, [("run", 2, None)]), ("a", [("run", 2, "a")]), ("b", []), ("gone", [])],
    ids=["of the run", "of a task", "of a task without a receiver", "of a task that the run no longer has"],
)
def test_the_receivers_of_a_missed_deadline(task_id: str | None, expected: list[tuple[str, int, str | None]]) -> None:
    told = (Callback(On.DEADLINE, TELL), Callback(On.FAILURE, FunctionReceiver("not_me")))
    dag = graph(task("a", callbacks=told), "b", callbacks=told)

    effects = missed(dag, run_view(state=RunState.RUNNING), DeadlineView(7, 1, task_id, "hour", DUE))

    notices = [effect for effect in effects if isinstance(effect, Notify)]
    assert [(notice.about, notice.seq, notice.context.task_id) for notice in notices] == expected
    assert all(notice.receiver == TELL and notice.context.on is On.DEADLINE for notice in notices)
    assert all(notice.context.at == NOW and "missed the deadline 'hour'" in notice.context.reason for notice in notices)
    assert all((notice.dag_run_id, notice.context.state) == (1, RunState.RUNNING) for notice in notices)
    assert all(n.context.deadline == MissedDeadline(name="hour", due_at=DUE, task_id=task_id or UNSET) for n in notices)


def test_a_run_that_missed_a_deadline_before_it_started_starts_with_new_tasks() -> None:
    """Its state_seq is higher than that of other queued runs."""
    world = SimulatedRun(graph("a", "b < a"), waits=True, state_seq=2)

    assert world.states() == {"a": TaskState.SCHEDULED, "b": TaskState.NONE}
