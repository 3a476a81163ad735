"""Datasets and time: ticks that make a run only if the condition holds then."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.shapes import A, B
from tests.unit.handlers.event_driven_dags import at, consumer, event, expiring, scheduled, timed
from tests.unit.handlers.timed_dags import minutes_of, tick
from tidegate.handlers.scheduling import timetable, timetable_with_datasets
from tidegate.handlers.scheduling.inputs import EXPIRED
from tidegate.schemas.conditions.condition import AllOf, Condition, DatasetRef
from tidegate.schemas.effect.dag import DiscardEvents
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Dates
from tidegate.schemas.view import DagView

BOTH = AllOf((A, B))

AT_NOON = "the tick of 2024-05-01 12:00:00Z made no run: it waited for"


def both(*ticks: float, events: Sequence[Any] = (), condition: Condition = BOTH, **facts: Any) -> DagView:
    dates = Dates(tuple(map(at, ticks)))
    common = {"missed": "all", "start_date": at(-999), "timed_run_ids": (201, 202, 203)}
    return consumer(condition, *events, together=True, timetable=dates, **{**common, **facts})


def test_a_tick_at_which_the_condition_holds_makes_a_run() -> None:
    done = scheduled(both(0, 10, events=(event(1, arrived=-5), event(2, "b", arrived=-1))))

    (run,) = (effect for effect in done.effects if isinstance(effect, InsertRun))
    assert (run.run_type, run.logical_date, run.id, run.events, done.runs) == ("scheduled", at(0), 201, 2, [[1, 2]])
    assert (run.state, run.start_date) == (RunState.RUNNING, at(0))
    assert (done.noted, done.wakeup) == ([], 10)


def test_a_tick_at_which_the_condition_does_not_hold_is_noted() -> None:
    done = scheduled(both(0, 10, events=(event(1),)))

    assert (done.runs, done.noted, done.wakeup) == (
        [],
        [
            (
                "tick_unmet",
                "the tick of 2024-05-01 12:00:00Z made no run: it waited for its condition to hold: no event is pending of s://b",
            )
        ],
        10,
    )
    assert done.clock is not None
    assert minutes_of(done.clock.last_logical_date) == 0


def test_a_tick_that_may_have_a_run_waits_for_the_next_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetable, "MAX_RUN_DATES", 1)

    done = scheduled(both(-30, -20, -10, events=(event(1),), run_dates=frozenset({at(-20)})))

    assert (len(done.noted), done.wakeup) == (1, -10)
    assert done.clock is not None
    assert minutes_of(done.clock.last_logical_date) == -20


def test_between_ticks_nothing_starts() -> None:
    done = scheduled(both(10, events=(event(1), event(2, "b"))))

    assert (done.runs, done.wakeup) == ([], 10)


def test_a_tick_counts_only_events_that_had_arrived() -> None:
    done = scheduled(
        both(-10, -5, events=(event(1, arrived=-20), event(2, "b", arrived=-10), event(3, arrived=-9), event(4, "b")))
    )

    assert (done.runs, [said for _, said in done.noted]) == (
        [[1, 2]],
        ["the tick of 2024-05-01 11:55:00Z made no run: it waited for its condition to hold: no event is pending of s://b"],
    )


def test_a_late_tick_counts_events_that_had_not_expired_at_its_time() -> None:
    condition = AllOf((expiring("a", 7), B))
    events = (event(1, arrived=-12), event(2, "b", arrived=-10), event(3, arrived=-7.5))

    done = scheduled(both(-6, events=events, condition=condition))

    assert (done.runs, done.discarded) == ([[1, 2, 3]], {})
    assert scheduled(both(-4, events=events, condition=condition)).discarded == {EXPIRED: [1]}


def test_the_minimum_interval_counts_from_the_tick_of_the_last_run() -> None:
    done = scheduled(both(-5, events=(event(1, arrived=-9), event(2, "b", arrived=-9)), timing=timed(min_interval=60)))

    assert done.clock is not None
    assert (done.runs, done.clock.dataset_run_at) == ([[1, 2]], at(-5))


def test_a_late_run_begins_a_catchup_interval() -> None:
    events = (event(1, arrived=-60), event(2, "b", arrived=-60), event(3, arrived=-25), event(4, "b", arrived=-25))

    done = scheduled(both(-30, -20, events=events, missed_per_minute=2))

    assert done.clock is not None
    assert (done.runs, done.wakeup, done.clock.catchup_until) == ([[1, 2]], 0.5, at(0.5))


def test_events_that_expired_after_the_last_tick_are_discarded() -> None:
    done = scheduled(both(-3, events=(event(1, arrived=-6),), condition=AllOf((expiring("a", 5), B))))

    assert (done.runs, done.discarded, len(done.noted)) == ([], {EXPIRED: [1]}, 1)


@pytest.mark.parametrize(
    ("events", "timing", "facts", "said"),
    [
        ((event(1, happened=-9), event(2, "b")), timed(within=5), {}, "inputs that happened within 5m00s of each other"),
        ((event(1), event(2, "b")), timed(quiet_for=5), {}, "quiet until 2024-05-01 12:05:00Z, longer if more events arrive"),
        (
            (event(1), event(2, "b")),
            timed(min_interval=5),
            {"dataset_run_at": at(-1)},
            "the minimum interval between two runs to pass, at 2024-05-01 12:04:00Z",
        ),
    ],
)
def test_the_note_of_a_tick_says_what_was_missing(events: Sequence[Any], timing: Any, facts: dict[str, Any], said: str) -> None:
    done = scheduled(both(0, events=events, timing=timing, **facts))

    assert (done.runs, done.noted) == (
        [],
        [("tick_unmet", f"{AT_NOON} {said}")],
    )


def test_the_note_of_a_tick_shows_an_invalid_filter() -> None:
    done = scheduled(both(0, events=(event(1),), condition=DatasetRef("s://a", "n >")))

    said = "FilterError: at character 4 of 'n >': expected a field or a value, found the end"
    assert done.noted == [
        ("condition_error", said),
        ("tick_unmet", f"{AT_NOON} a condition that can be evaluated: {said}"),
        ("condition_error", said),
    ]


def test_ticks_wait_for_capacity() -> None:
    done = scheduled(both(-5, events=(event(1, arrived=-9), event(2, "b", arrived=-9)), limit=1, running=1))

    assert (done.runs, done.noted, done.wakeup) == ([], [], None)


def test_ticks_without_ids_wait_for_the_next_wakeup() -> None:
    done = scheduled(both(-5, events=(event(1, arrived=-9), event(2, "b", arrived=-9)), timed_run_ids=()))

    assert (done.runs, done.noted, done.wakeup) == ([], [], -5)


def test_an_event_that_is_rejected_when_it_arrives_is_discarded_once() -> None:
    done = scheduled(both(10, unread=True, arrived=(event(1, "z"), event(2))))

    assert [effect.events for effect in done.effects if isinstance(effect, DiscardEvents)] == [(event(1, "z"),)]


def test_a_due_tick_of_an_unread_dag_wakes_it_at_once() -> None:
    done = scheduled(both(-5, unread=True))

    assert (done.runs, done.noted, done.wakeup) == ([], [], -5)


def test_one_decision_passes_over_a_limited_number_of_unmet_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetable_with_datasets, "MAX_UNMET_TICKS", 2)

    done = scheduled(both(-5, -4, -3, -2))

    assert (len(done.noted), done.wakeup) == (2, -3)


def test_ticks_with_runs_are_not_decided_again() -> None:
    done = scheduled(both(-5, 10, last_tick=tick(-5), due_at=at(10), events=(event(1),)))

    assert (done.noted, done.clock) == ([], None)
