"""Timing of conditions: window, debouncing, rate limit, one run per event."""

from collections.abc import Container
from typing import Any

import pytest

from tests.shapes import A, B, C
from tests.unit.handlers.event_driven_dags import at, consumer, event, expiring, scheduled, timed
from tidegate.handlers.scheduling import condition
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.dataset_runs import SUPERSEDED
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, Leaf, NOf, Timing, met_by_inputs
from tidegate.schemas.explain.reasons import AwaitsTick, Debouncing, InputsMissing, OutsideWindow, RateLimited
from tidegate.schemas.timetable.spec import Dates

BOTH = AllOf((A, B))


def test_inputs_within_the_window_make_a_run() -> None:
    dag = consumer(BOTH, event(1, happened=-10), event(2, "b", happened=-5), timing=timed(within=5))

    assert scheduled(dag).runs == [[1, 2]]


def test_one_event_is_a_window() -> None:
    assert scheduled(consumer(AnyOf((A, B)), event(1), timing=timed(within=5))).runs == [[1]]


def test_inputs_outside_the_window_stay_pending() -> None:
    dag = consumer(BOTH, event(1, happened=-10.1), event(2, "b", happened=-5), timing=timed(within=5))

    assert (scheduled(dag).runs, scheduled(dag).discarded, scheduled(dag).wakeup) == ([], {}, None)
    assert next_dataset_run(dag, at(0)) == OutsideWindow(300)


def test_missing_inputs_are_reported_before_the_window() -> None:
    assert next_dataset_run(consumer(BOTH, event(1), timing=timed(within=5)), at(0)) == InputsMissing(("s://b",))


def test_the_newest_window_makes_the_run_and_supersedes_older_inputs() -> None:
    events = (event(1, happened=-30), event(2, happened=-10), event(3, "b", happened=-8), event(4, happened=-7))

    done = scheduled(consumer(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[2, 3, 4]], {SUPERSEDED: [1]})


def test_inputs_newer_than_the_window_stay_pending() -> None:
    events = (event(1, happened=-30), event(2, "b", happened=-28), event(3, happened=-10), event(4, happened=-1))

    done = scheduled(consumer(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[1, 2]], {})


def test_late_and_unordered_events_count_by_when_they_occurred() -> None:
    events = (event(1, "b", arrived=-1, happened=-50), event(2, arrived=-20, happened=-20), event(3, arrived=-2, happened=-49))

    done = scheduled(consumer(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[1, 3]], {})


def test_a_run_is_debounced() -> None:
    dag = consumer(BOTH, event(1, arrived=-9), event(2, "b", arrived=-3), timing=timed(quiet_for=5))

    assert (scheduled(dag).runs, scheduled(dag).wakeup) == ([], 2)
    assert next_dataset_run(dag, at(0)) == Debouncing(at(2))
    assert scheduled(dag, 2).runs == [[1, 2]]


def test_a_condition_with_missing_inputs_needs_no_wakeup() -> None:
    assert scheduled(consumer(BOTH, event(1), timing=timed(quiet_for=5))).wakeup is None


@pytest.mark.parametrize(
    ("arrived", "wakeup"), [((-20, -6, -1), 2), ((-20, -7, -1), 1), ((-20, -3, -1), 4), ((-20, -8, -1), None)], ids=str
)
def test_debouncing_ends_after_the_maximum_wait(arrived: tuple[float, float, float], wakeup: float | None) -> None:
    first, second, third = arrived
    events = (event(1, arrived=first), event(2, "b", arrived=second), event(3, "b", arrived=third))

    done = scheduled(consumer(BOTH, *events, timing=timed(quiet_for=5, max_wait=8)))

    assert (done.wakeup, done.runs) == (wakeup, [] if wakeup else [[1, 2, 3]])


def test_the_maximum_wait_begins_with_the_last_needed_event() -> None:
    events = (event(1, arrived=-30), event(2, arrived=-2))

    assert scheduled(consumer(NOf(1, (A, B)), *events, timing=timed(quiet_for=5, max_wait=8))).runs == [[1, 2]]
    assert scheduled(consumer(BOTH, *events, event(3, "b", arrived=-1), timing=timed(quiet_for=5, max_wait=8))).wakeup == 4


def test_the_maximum_wait_begins_with_the_first_complete_window() -> None:
    events = (event(1, arrived=-30), event(2, "b", arrived=-20), event(3, arrived=-18.5), event(4, arrived=-1))

    early = consumer(BOTH, *events, timing=timed(within=2, quiet_for=5, max_wait=17))
    late = consumer(BOTH, *events, timing=timed(within=2, quiet_for=5, max_wait=20))

    assert next_dataset_run(early, at(0)) == Satisfied(events[1:3], events[:1])
    assert next_dataset_run(late, at(0)) == Debouncing(at(1.5))


def test_runs_of_a_condition_are_rate_limited() -> None:
    dag = consumer(A, event(1), timing=timed(min_interval=5), dataset_run_at=at(-3))

    assert (scheduled(dag).runs, scheduled(dag).wakeup) == ([], 2)
    assert next_dataset_run(dag, at(0)) == RateLimited(at(2))
    assert scheduled(dag, 2).runs == [[1]]


def test_the_time_of_a_run_is_stored_only_if_runs_are_rate_limited() -> None:
    spaced = scheduled(consumer(A, event(1), timing=timed(min_interval=5)))
    other = scheduled(consumer(A, event(1), timing=timed(within=5)))

    assert spaced.clock is not None
    assert (spaced.clock.dataset_run_at, other.clock) == (at(0), None)


def test_without_capacity_only_expiry_wakes_a_dag() -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), event(1), event(2, "b"), timing=timed(quiet_for=3), running=16)

    assert (scheduled(dag).runs, scheduled(dag).wakeup) == ([], 5)


def test_each_event_makes_a_run_of_its_own_in_order() -> None:
    done = scheduled(consumer(A, event(4), event(5), event(6), mode="each", event_run_ids=(101, 102)))

    assert done.runs == [[4], [5], [6]]


@pytest.mark.parametrize(
    ("facts", "runs", "wakeup"),
    [
        ({"limit": 2}, [[4], [5]], None),
        ({"limit": 2, "running": 1}, [[4]], None),
        ({"limit": 2, "running": 2}, [], None),
        ({"limit": 1, "tasks": ("t!",)}, [[4], [5], [6]], 0),
        ({"event_run_ids": (101,)}, [[4], [5]], 0),
        ({"timing": timed(min_interval=5)}, [[4]], 5),
        ({"is_paused": True}, [], None),
    ],
    ids=str,
)
def test_runs_of_one_event_each_use_the_capacity(facts: dict[str, Any], runs: list[list[int]], wakeup: float | None) -> None:
    done = scheduled(consumer(A, event(4), event(5), event(6), mode="each", **{"event_run_ids": (101, 102), **facts}))

    assert (done.runs, done.wakeup) == (runs, wakeup)


@pytest.mark.parametrize(
    ("pending", "facts", "runs", "wakeup"),
    [
        ("bb", {}, [], 0),
        ("ba", {}, [[5]], 0),
        ("ba", {"tasks": ("t",)}, [[5]], None),
        ("b", {}, [], None),
        ("bbb", {"limit": 2, "running": 1}, [], 0),
        ("bb", {"running": 1}, [], None),
    ],
    ids=str,
)
def test_events_that_are_rejected_make_room_for_others(
    pending: str, facts: dict[str, Any], runs: list[list[int]], wakeup: float | None
) -> None:
    """As many are read as can start runs, and one more: if none is left of these, others may be."""
    events = [event(4 + number, letter) for number, letter in enumerate(pending)]

    done = scheduled(consumer(A, *events, mode="each", **{"limit": 1, "tasks": ("t!",), **facts}))

    assert (done.runs, done.wakeup) == (runs, wakeup)


def test_without_events_no_run_of_one_event_starts() -> None:
    assert next_dataset_run(consumer(A, mode="each"), at(0)) == InputsMissing(("s://a",))


def test_n_of_several_inputs_are_enough() -> None:
    two = NOf(2, (A, B, AnyOf((C, expiring("d", 5)))))

    assert scheduled(consumer(two, event(1), event(2))).runs == []
    assert scheduled(consumer(two, event(1), event(2, "d"))).runs == [[1, 2]]


def test_a_dag_that_requires_both_awaits_its_tick() -> None:
    assert next_dataset_run(consumer(A, timetable=Dates((at(5),)), together=True), at(0)) == AwaitsTick()


def test_a_satisfied_condition_has_the_events_of_its_run() -> None:
    events = (event(1, happened=-30), event(2, happened=-1), event(3, "b", happened=-1))

    assert next_dataset_run(consumer(BOTH, *events, timing=Timing(within_s=60)), at(0)) == Satisfied(events[1:], events[:1])


def test_a_window_is_searched_only_where_all_inputs_together_meet_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Condition] = []

    def met(schedule: Condition, present: Container[Leaf]) -> bool:
        evaluated.append(schedule)
        return met_by_inputs(schedule, present)

    monkeypatch.setattr(condition, "met_by_inputs", met)
    many = [event(number) for number in range(1, 101)]
    result = next_dataset_run(consumer(BOTH, *many, timing=timed(within=10)), at(0))

    assert result == InputsMissing(("s://b",))
    assert len(evaluated) < 5
