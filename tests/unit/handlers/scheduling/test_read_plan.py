"""What a decision reads of queued runs and pending events."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, B, C, graph
from tests.unit.handlers.event_driven_dags import at, by, expiring
from tidegate.handlers.scheduling.read_plan import MAX_RUNS, ReadReason, most_runs, read_plan
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, PatternRef, Timing
from tidegate.schemas.graph import Graph
from tidegate.schemas.read_plan import RUN_EVENTS, EventKey, EventPlan, ReadPlan
from tidegate.schemas.timetable.spec import Cron, Dates
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagActivity, LockedDag

BOTH = AllOf((A, B))
FILTERED = DatasetRef("s://a", "extra.x = 1")
ANYWAY = EventPlan(with_details=True, of_each=True)
ARRIVED = (EventKey(1, 7), EventKey(1, 8))
HOURLY = Dates(tuple(NOW + timedelta(hours=number) for number in range(-3, 3)))


def plan(dag: Graph, reason: ReadReason | None = None, **facts: Any) -> Callable[[], ReadPlan]:
    """The decision, which the test makes: none is made when the tests are collected."""
    return partial(planned, dag, reason or ReadReason(), **facts)


def planned(
    dag: Graph,
    reason: ReadReason,
    *,
    running: int = 0,
    queued: int = 0,
    pending: bool = True,
    most: int = RUN_EVENTS,
    **facts: Any,
) -> ReadPlan:
    """Of a DAG with pending events that has no other runs, but for the facts given."""
    locked = LockedDag(graph=dag, **{"is_paused": False, "is_stale": False, "next_run_id": 1, **facts})
    return read_plan(locked, DagActivity(running, queued, None, 1 if pending else None), reason, NOW, most)


def consumer(schedule: Any = A, **facts: Any) -> Graph:
    return graph("t", schedule=schedule, **facts)


def timed(**facts: Any) -> Graph:
    return graph("t", timetable=HOURLY, start_date=at(-9999), missed="all", **facts)


NEW = graph("t", timetable=Cron(("30 * * * *",)), missed="all", run_immediately=False)


def arrived(*keys: EventKey) -> ReadReason:
    return ReadReason(just_arrived={"d": keys} if keys else {})


EVERYTHING = ReadReason(everything=True)
ENDING = ReadReason(ending_runs={"d": 1})


@pytest.mark.parametrize(
    ("found", "queued_runs"),
    [
        pytest.param(plan(consumer(), queued=5), 5, id="fewer than slots are free"),
        pytest.param(plan(consumer(limit=2), queued=5, running=1), 1, id="the slots that are free"),
        pytest.param(plan(consumer(limit=2), queued=5, running=2), 0, id="no slot is free"),
        pytest.param(plan(consumer(limit=2), queued=5, running=3), 0, id="more runs than slots"),
        pytest.param(plan(consumer(limit=2), ENDING, queued=5, running=2), 1, id="a run may end"),
        pytest.param(plan(consumer(limit=2), EVERYTHING, queued=5, running=2), 5, id="the limit may change"),
        pytest.param(plan(consumer(limit=9999), queued=9999), MAX_RUNS, id="not too many at once"),
        pytest.param(plan(consumer(), EVERYTHING, queued=9999), MAX_RUNS, id="not too many, whatever changes"),
        pytest.param(plan(graph("t!", limit=2), queued=9999, running=1), MAX_RUNS, id="more than slots, if they occupy none"),
        pytest.param(plan(graph("t!", limit=2), queued=9999, running=2), 0, id="no slot is free, though they occupy none"),
        pytest.param(plan(consumer(), queued=0), 0, id="none is queued"),
    ],
)
def test_queued_runs_are_read_for_the_free_slots(found: Callable[[], ReadPlan], queued_runs: int) -> None:
    assert found().queued_runs == queued_runs


@pytest.mark.parametrize(("tasks", "runs"), [(1, 6), (3, 2), (4, 1), (7, 1)])
def test_one_decision_starts_about_so_many_tasks_or_one_run(monkeypatch: pytest.MonkeyPatch, tasks: int, runs: int) -> None:
    monkeypatch.setattr(read_plan.__module__ + ".TASKS_PER_DECISION", 6)

    assert most_runs(graph(*map(str, range(tasks)))) == runs


@pytest.mark.parametrize(
    ("found", "timed_runs"),
    [
        pytest.param(plan(timed()), 16, id="late ticks, for each free slot"),
        pytest.param(plan(timed(limit=3), running=1), 2, id="the slots that are free"),
        pytest.param(plan(timed(limit=1), running=1), 0, id="no slot is free"),
        pytest.param(plan(timed(limit=1), ENDING, running=1), 1, id="a run may end"),
        pytest.param(plan(timed(limit=9999)), MAX_RUNS, id="not too many at once"),
        pytest.param(plan(timed(), is_paused=True), 0, id="the DAG is paused"),
        pytest.param(plan(timed(), is_stale=True), 0, id="the DAG is stale"),
        pytest.param(plan(timed(), last_tick=Tick(*4 * (at(-60),))), 16, id="a tick is due this moment"),
        pytest.param(plan(timed(), last_tick=Tick(NOW, NOW, NOW, NOW)), 0, id="the next tick is to come"),
        pytest.param(plan(NEW, timed_since=at(-90)), 16, id="ticks since the DAG has a timetable"),
        pytest.param(plan(NEW, timed_since=NOW), 0, id="no tick since the DAG has a timetable"),
        pytest.param(plan(timed(), last_tick=Tick(*4 * (at(120),))), 0, id="the timetable has ended"),
        pytest.param(plan(consumer()), 0, id="no timetable"),
    ],
)
def test_run_ids_are_reserved_for_ticks_that_are_due(found: Callable[[], ReadPlan], timed_runs: int) -> None:
    assert found().timed_runs == timed_runs


@pytest.mark.parametrize(
    ("found", "since"),
    [
        pytest.param(plan(timed()), at(-180), id="from the first tick that is due"),
        pytest.param(plan(timed(limit=1), running=1), None, id="no slot is free"),
        pytest.param(plan(timed(), EVERYTHING), None, id="a new version may have earlier ticks"),
    ],
)
def test_dates_with_a_run_are_read_from_the_first_tick_that_may_have_none(
    found: Callable[[], ReadPlan], since: datetime | None
) -> None:
    assert found().dates_since == since


@pytest.mark.parametrize(
    ("found", "events"),
    [
        pytest.param(plan(consumer(), pending=False), None, id="none is pending"),
        pytest.param(plan(consumer(), EVERYTHING, pending=False), None, id="none is pending, everything is wanted"),
        pytest.param(plan(consumer()), EventPlan(), id="one dataset: any event may start a run"),
        pytest.param(plan(consumer(None)), EventPlan(), id="no condition: leftovers of an earlier version"),
        pytest.param(plan(consumer(PatternRef("s://*"))), EventPlan(with_details=True), id="one pattern"),
        pytest.param(plan(consumer(FILTERED)), EventPlan(with_details=True), id="one filter"),
        pytest.param(
            plan(consumer(BOTH)), EventPlan(only_if_met=BOTH, of_each=True), id="several datasets: only if all have events"
        ),
        pytest.param(
            plan(consumer(AnyOf((BOTH, C)))), EventPlan(only_if_met=AnyOf((BOTH, C)), of_each=True), id="nested conditions"
        ),
        pytest.param(
            plan(consumer(AllOf((FILTERED, B)))),
            EventPlan(only_if_met=AllOf((FILTERED, B)), with_details=True, of_each=True),
            id="several datasets, one filtered",
        ),
        pytest.param(plan(consumer(limit=2), running=2), None, id="no slot is free"),
        pytest.param(plan(consumer(), is_paused=True), None, id="the DAG is paused"),
        pytest.param(plan(consumer(limit=2), ENDING, running=2), EventPlan(), id="a run may end"),
        pytest.param(plan(consumer(limit=2), EVERYTHING, running=2), ANYWAY, id="everything, even without a slot"),
        pytest.param(plan(consumer(BOTH), EVERYTHING), ANYWAY, id="everything, even if the condition is not met"),
    ],
)
def test_pending_events_are_read_if_they_may_start_a_run(found: Callable[[], ReadPlan], events: EventPlan | None) -> None:
    assert found().events == events


FULL = {"limit": 1}
EXPIRING = consumer(AllOf((expiring("a", 5), B)), **FULL)
LATE = consumer(BOTH, timing=by("skip", after=5), **FULL)
JOINT = timed(schedule=BOTH, together=True)


@pytest.mark.parametrize(
    ("found", "events"),
    [
        pytest.param(plan(EXPIRING, running=1, due_at=NOW), ANYWAY, id="events may have expired"),
        pytest.param(plan(EXPIRING, running=1, due_at=None), ANYWAY, id="the clock knows of no expiry yet"),
        pytest.param(plan(EXPIRING, running=1, due_at=at(1)), None, id="no event has expired"),
        pytest.param(plan(LATE, running=1, due_at=NOW), ANYWAY, id="the deadline may have passed"),
        pytest.param(plan(LATE, ENDING, running=1, due_at=at(1)), ANYWAY, id="a run ends: a late one may start"),
        pytest.param(plan(EXPIRING, ENDING, running=2, due_at=at(1)), None, id="a run ends: no deadline wants another"),
        pytest.param(plan(JOINT), ANYWAY, id="a tick is due"),
        pytest.param(plan(JOINT, running=15), ANYWAY, id="a tick is due, and one slot is free"),
        pytest.param(plan(JOINT, last_tick=Tick(NOW, NOW, NOW, NOW)), None, id="no tick is due: events alone start no run"),
        pytest.param(plan(JOINT, is_paused=True), None, id="the DAG is paused: no tick is decided"),
    ],
)
def test_all_events_are_read_when_more_than_their_arrival_changes_what_becomes_of_them(
    found: Callable[[], ReadPlan], events: EventPlan | None
) -> None:
    assert found().events == events


@pytest.mark.parametrize(
    ("found", "events", "just_arrived"),
    [
        pytest.param(plan(consumer(FILTERED, **FULL), arrived(*ARRIVED), running=1), None, ARRIVED, id="the new ones alone"),
        pytest.param(
            plan(consumer(FILTERED), arrived(*ARRIVED)), EventPlan(with_details=True), ARRIVED, id="the new ones as a fallback"
        ),
        pytest.param(plan(consumer(**FULL), arrived(*ARRIVED), running=1), None, (), id="the DAG inspects no events"),
        pytest.param(plan(consumer(FILTERED, **FULL), arrived(), running=1), ANYWAY, (), id="it inspects them only now"),
        pytest.param(plan(consumer(FILTERED, **FULL), running=1), None, (), id="no events have arrived"),
    ],
)
def test_new_events_are_inspected_even_without_a_free_slot(
    found: Callable[[], ReadPlan], events: EventPlan | None, just_arrived: tuple[EventKey, ...]
) -> None:
    assert (found().events, found().just_arrived) == (events, just_arrived)


@pytest.mark.parametrize(
    ("found", "limit", "event_runs"),
    [
        pytest.param(plan(consumer(mode="each", limit=5), running=2), 4, 3, id="one event for each slot, and one more"),
        pytest.param(plan(consumer(mode="each", limit=9999)), MAX_RUNS + 1, MAX_RUNS, id="not too many at once"),
        pytest.param(plan(consumer(mode="each", limit=5), EVERYTHING, most=7), 7, 5, id="everything"),
        pytest.param(plan(consumer(limit=5), most=7), 7, 1, id="as many as one run consumes"),
    ],
)
def test_a_run_for_each_event_reads_as_many_events_as_may_start_runs(
    found: Callable[[], ReadPlan], limit: int, event_runs: int
) -> None:
    events = found().events
    assert events is not None
    assert (events.limit, found().event_runs) == (limit, event_runs)


def test_the_rest_is_counted_unless_each_event_makes_a_run() -> None:
    assert [plan(consumer(mode=mode))().events for mode in ("batch", "each")] == [
        EventPlan(),
        EventPlan(limit=17, with_details=True, with_rest=False),
    ]


def test_a_dag_that_requires_both_starts_no_run_from_events_alone() -> None:
    assert plan(msgspec.structs.replace(JOINT, one_run_per_event=True, timing=Timing()))().event_runs == 0


QUIET = consumer(timing=Timing(quiet_for_s=300, max_wait_s=240))
LATE_QUIET = consumer(timing=Timing(quiet_for_s=300, deadline=by("skip", after=9).deadline))
RATED = consumer(timing=Timing(min_interval_s=600))


@pytest.mark.parametrize(
    ("found", "is_read"),
    [
        pytest.param(plan(QUIET, arrived(*ARRIVED), due_at=at(4)), False, id="the clock looks before a run may start"),
        pytest.param(plan(QUIET, arrived(*ARRIVED), due_at=at(4.1)), True, id="the run may start before the clock looks"),
        pytest.param(plan(QUIET, arrived(*ARRIVED), due_at=NOW), True, id="it is due"),
        pytest.param(plan(QUIET, arrived(*ARRIVED)), True, id="the clock does not look"),
        pytest.param(plan(QUIET, due_at=at(4)), True, id="no event arrived"),
        pytest.param(plan(QUIET, ENDING, due_at=at(4)), True, id="a run may end"),
        pytest.param(plan(RATED, arrived(*ARRIVED), due_at=at(9), dataset_run_at=at(-1)), False, id="rate limited until then"),
        pytest.param(plan(RATED, arrived(*ARRIVED), due_at=at(9), dataset_run_at=at(-2)), True, id="rate limited not so long"),
        pytest.param(plan(RATED, arrived(*ARRIVED), due_at=at(1 / 60)), True, id="nothing delays a run"),
        pytest.param(plan(LATE_QUIET, arrived(*ARRIVED), due_at=at(4)), True, id="a deadline ends the wait"),
    ],
)
def test_events_that_wait_for_time_are_not_read_at_each_arrival(found: Callable[[], ReadPlan], is_read: bool) -> None:
    assert (found().events is not None) == is_read
