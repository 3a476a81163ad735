"""When a condition counts: within, quiet, between runs, one by one."""

from typing import Any

import pytest

from tests.shapes import A, B, C
from tests.unit.handlers.event_driven_dags import at, event, expiring, settled, timed, waiting
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.dataset_runs import SUPERSEDED
from tidegate.schemas.conditions.condition import AllOf, AnyOf, NOf, Timing
from tidegate.schemas.explain.reasons import AwaitsTick, Debouncing, InputsMissing, OutsideWindow, RateLimited
from tidegate.schemas.timetable.spec import Dates

BOTH = AllOf((A, B))


def test_inputs_that_happened_within_the_time_make_a_run() -> None:
    dag = waiting(BOTH, event(1, happened=-10), event(2, "b", happened=-5), timing=timed(within=5))

    assert settled(dag).runs == [[1, 2]]


def test_inputs_that_happened_further_apart_wait() -> None:
    dag = waiting(BOTH, event(1, happened=-10.1), event(2, "b", happened=-5), timing=timed(within=5))

    assert (settled(dag).runs, settled(dag).discarded, settled(dag).look) == ([], {}, None)
    assert next_dataset_run(dag, at(0)) == OutsideWindow(300)


def test_what_is_missing_is_said_before_what_is_apart() -> None:
    assert next_dataset_run(waiting(BOTH, event(1), timing=timed(within=5)), at(0)) == InputsMissing(("s://b",))


def test_the_newest_inputs_that_go_together_make_the_run_and_supersede_older_ones() -> None:
    events = (event(1, happened=-30), event(2, happened=-10), event(3, "b", happened=-8), event(4, happened=-7))

    done = settled(waiting(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[2, 3, 4]], {SUPERSEDED: [1]})


def test_inputs_that_are_newer_than_the_run_go_on_waiting() -> None:
    events = (event(1, happened=-30), event(2, "b", happened=-28), event(3, happened=-10), event(4, happened=-1))

    done = settled(waiting(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[1, 2]], {})


def test_events_that_come_late_and_out_of_order_go_by_when_they_happened() -> None:
    events = (event(1, "b", arrived=-1, happened=-50), event(2, arrived=-20, happened=-20), event(3, arrived=-2, happened=-49))

    done = settled(waiting(BOTH, *events, timing=timed(within=5)))

    assert (done.runs, done.discarded) == ([[1, 3]], {})


def test_a_run_waits_until_nothing_has_come_for_so_long() -> None:
    dag = waiting(BOTH, event(1, arrived=-9), event(2, "b", arrived=-3), timing=timed(quiet_for=5))

    assert (settled(dag).runs, settled(dag).look) == ([], 2)
    assert next_dataset_run(dag, at(0)) == Debouncing(at(2))
    assert settled(dag, 2).runs == [[1, 2]]


def test_who_waits_for_more_than_quiet_needs_no_look() -> None:
    assert settled(waiting(BOTH, event(1), timing=timed(quiet_for=5))).look is None


@pytest.mark.parametrize(
    ("arrived", "look"), [((-20, -6, -1), 2), ((-20, -7, -1), 1), ((-20, -3, -1), 4), ((-20, -8, -1), None)], ids=str
)
def test_a_run_waits_no_longer_than_the_longest_wait_once_its_inputs_are_there(
    arrived: tuple[float, float, float], look: float | None
) -> None:
    first, second, third = arrived
    events = (event(1, arrived=first), event(2, "b", arrived=second), event(3, "b", arrived=third))

    done = settled(waiting(BOTH, *events, timing=timed(quiet_for=5, max_wait=8)))

    assert (done.look, done.runs) == (look, [] if look else [[1, 2, 3]])


def test_the_longest_wait_begins_with_the_last_event_that_was_needed() -> None:
    events = (event(1, arrived=-30), event(2, arrived=-2))

    assert settled(waiting(NOf(1, (A, B)), *events, timing=timed(quiet_for=5, max_wait=8))).runs == [[1, 2]]
    assert settled(waiting(BOTH, *events, event(3, "b", arrived=-1), timing=timed(quiet_for=5, max_wait=8))).look == 4


def test_the_longest_wait_begins_when_inputs_that_go_together_are_there() -> None:
    events = (event(1, arrived=-30), event(2, "b", arrived=-20), event(3, arrived=-18.5), event(4, arrived=-1))

    early = waiting(BOTH, *events, timing=timed(within=2, quiet_for=5, max_wait=17))
    late = waiting(BOTH, *events, timing=timed(within=2, quiet_for=5, max_wait=20))

    assert next_dataset_run(early, at(0)) == Satisfied(events[1:3], events[:1])
    assert next_dataset_run(late, at(0)) == Debouncing(at(1.5))


def test_two_runs_of_a_condition_are_so_long_apart() -> None:
    dag = waiting(A, event(1), timing=timed(min_interval=5), dataset_run_at=at(-3))

    assert (settled(dag).runs, settled(dag).look) == ([], 2)
    assert next_dataset_run(dag, at(0)) == RateLimited(at(2))
    assert settled(dag, 2).runs == [[1]]


def test_a_run_is_remembered_only_where_the_time_between_runs_matters() -> None:
    spaced = settled(waiting(A, event(1), timing=timed(min_interval=5)))
    other = settled(waiting(A, event(1), timing=timed(within=5)))

    assert spaced.clock is not None
    assert (spaced.clock.dataset_run_at, other.clock) == (at(0), None)


def test_without_room_nothing_but_expiry_is_looked_at() -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), event(1), event(2, "b"), timing=timed(quiet_for=3), running=16)

    assert (settled(dag).runs, settled(dag).look) == ([], 5)


def test_each_event_makes_a_run_of_its_own_in_order() -> None:
    done = settled(waiting(A, event(4), event(5), event(6), mode="each", event_run_ids=(101, 102)))

    assert done.runs == [[4], [5], [6]]


@pytest.mark.parametrize(
    ("facts", "runs", "look"),
    [
        ({"limit": 2}, [[4], [5]], None),
        ({"limit": 2, "running": 1}, [[4]], None),
        ({"limit": 2, "running": 2}, [], None),
        ({"limit": 1, "tasks": ("t!",)}, [[4], [5], [6]], None),
        ({"event_run_ids": (101,)}, [[4], [5]], 0),
        ({"timing": timed(min_interval=5)}, [[4]], 5),
        ({"is_paused": True}, [], None),
    ],
    ids=str,
)
def test_runs_of_one_event_each_start_while_they_may(facts: dict[str, Any], runs: list[list[int]], look: float | None) -> None:
    done = settled(waiting(A, event(4), event(5), event(6), mode="each", **{"event_run_ids": (101, 102), **facts}))

    assert (done.runs, done.look) == (runs, look)


def test_who_waits_for_each_event_waits_when_there_is_none() -> None:
    assert next_dataset_run(waiting(A, mode="each"), at(0)) == InputsMissing(("s://a",))


def test_n_of_several_inputs_are_enough() -> None:
    two = NOf(2, (A, B, AnyOf((C, expiring("d", 5)))))

    assert settled(waiting(two, event(1), event(2))).runs == []
    assert settled(waiting(two, event(1), event(2, "d"))).runs == [[1, 2]]


def test_a_dag_that_runs_at_ticks_only_says_so() -> None:
    assert next_dataset_run(waiting(A, timetable=Dates((at(5),)), together=True), at(0)) == AwaitsTick()


def test_the_gate_is_open_with_what_the_run_would_take() -> None:
    events = (event(1, happened=-30), event(2, happened=-1), event(3, "b", happened=-1))

    assert next_dataset_run(waiting(BOTH, *events, timing=Timing(within_s=60)), at(0)) == Satisfied(events[1:], events[:1])
