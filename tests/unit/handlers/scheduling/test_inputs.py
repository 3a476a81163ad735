"""Which events are inputs of a DAG, and what becomes of the others."""

from typing import Any

import pytest

from tests.shapes import A, B, dag_view
from tests.unit.handlers.event_driven_dags import at, event, expiring, settled, timed, waiting
from tests.unit.handlers.timed_dags import timed as by_time
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.inputs import EXPIRED, FILTERED, NOT_SCHEDULED
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, PatternRef
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain.reasons import ConditionBroken, InputsMissing

MANY = DatasetRef("s://a", "n > 2")
FEW = DatasetRef("s://a", "n <= 2")


def test_an_event_that_no_filter_lets_pass_is_discarded() -> None:
    done = settled(waiting(AllOf((MANY, B)), event(1, n=1), event(2, n=3), event(3, "b")))

    assert (done.runs, done.discarded) == ([[2, 3]], {FILTERED: [1]})


def test_an_event_counts_only_for_those_inputs_whose_filter_lets_it_pass() -> None:
    both = AllOf((MANY, FEW))

    assert settled(waiting(both, event(1, n=3), event(2, n=4))).runs == []
    assert settled(waiting(both, event(1, n=3), event(2, n=1))).runs == [[1, 2]]


def test_an_event_of_a_dataset_that_is_not_waited_for_is_discarded() -> None:
    done = settled(waiting(MANY, event(1, "b", n=3)))

    assert (done.runs, done.discarded) == ([], {NOT_SCHEDULED: [1]})


def test_one_event_of_any_dataset_that_a_pattern_matches_is_enough() -> None:
    done = settled(waiting(AllOf((PatternRef("s://t/*"), A)), event(1, "a"), event(2, "t/1"), event(3, "t/2"), event(4, "t/x/1")))

    assert (done.runs, done.discarded) == ([[1, 2, 3]], {NOT_SCHEDULED: [4]})


def test_an_event_expires_when_its_time_is_over_and_not_before() -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), event(1))

    assert settled(dag, 4.9).discarded == {}
    assert settled(dag, 5).discarded == {EXPIRED: [1]}


def test_the_clock_comes_when_the_next_event_expires() -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), event(1), event(2, arrived=-1))

    assert settled(dag).look == 4


def test_an_event_that_is_an_input_twice_lives_as_long_as_one_of_them_lets_it() -> None:
    dag = waiting(AllOf((AnyOf((expiring("a", 5), expiring("a", 9, "n > 2"))), B)), event(1, n=3), event(2, n=1))
    for_ever = waiting(AllOf((AnyOf((expiring("a", 5), A)), B)), event(1))

    assert (settled(dag, 5).discarded, settled(dag, 5).look) == ({EXPIRED: [2]}, 9)
    assert (settled(for_ever, 50).discarded, settled(for_ever, 50).look) == ({}, None)


def test_an_event_that_was_old_when_it_came_has_expired() -> None:
    assert settled(waiting(expiring("a", 5), event(1, happened=-6))).discarded == {EXPIRED: [1]}


def test_a_producer_whose_clock_is_ahead_makes_nothing_live_longer() -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), event(1, happened=60))

    assert settled(dag, 5).discarded == {EXPIRED: [1]}


def test_a_held_dag_sorts_out_what_comes_and_starts_nothing() -> None:
    done = settled(waiting(MANY, event(1, n=1), event(2, n=3), is_paused=True, due_at=at(3)))

    assert (done.runs, done.discarded, done.look) == ([], {FILTERED: [1]}, None)


@pytest.mark.parametrize("held", [{"is_paused": True}, {"is_stale": True}], ids=["paused", "stale"])
def test_what_waits_for_a_held_dag_expires_at_its_moment(held: dict[str, Any]) -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), event(1, arrived=-1), **held)

    before, then = settled(dag), settled(dag, 4)

    assert (before.discarded, before.look) == ({}, 4)
    assert (then.discarded, then.look) == ({EXPIRED: [1]}, None)


def test_what_has_just_come_is_sorted_out_also_where_the_rest_was_not_read() -> None:
    new = (event(7, n=1), event(8, n=3))
    dag = waiting(AllOf((MANY, expiring("b", 5))), unread=True, arrived=(*new, event(9, "b", arrived=-2)), due_at=at(4))

    done = settled(dag)

    assert (done.runs, done.discarded, done.look) == ([], {FILTERED: [7]}, 3)


def test_where_not_everything_was_read_the_clock_keeps_its_moment() -> None:
    dag = waiting(AllOf((expiring("a", 5), B)), unread=True, due_at=at(4))

    assert (settled(dag).look, settled(dag, 4).look) == (4, None)


def test_a_condition_that_cannot_be_read_is_not_ready_and_is_recorded() -> None:
    broken = waiting(DatasetRef("s://a", "n >"), event(1, n=1), due_at=at(9))

    done = settled(broken)

    said = "FilterError: at character 4 of 'n >': expected a field or a value, found the end"
    assert (done.runs, done.discarded, done.noted, done.look) == ([], {}, [("condition_error", said)], None)
    assert next_dataset_run(broken, at(0)) == ConditionBroken(said)


def test_a_condition_that_cannot_be_read_stops_no_run_by_time() -> None:
    dag = dag_view(by_time(-1, schedule=DatasetRef("s://a", "n >")), timed_run_ids=(201,), pending=(event(1),))

    done = settled(dag)

    assert [effect.run_type for effect in done.effects if isinstance(effect, InsertRun)] == ["scheduled"]


def test_the_gate_names_the_inputs_that_are_awaited() -> None:
    dag = waiting(AllOf((MANY, PatternRef("s://t/*"), B)), event(1, n=1), event(2, "b"))

    assert next_dataset_run(dag, at(0)) == InputsMissing(("s://a[n > 2]", "s://t/*"))


def test_all_events_that_wait_are_taken_whichever_part_of_the_condition_they_meet() -> None:
    dag = waiting(AnyOf((expiring("a", 5), B)), event(1), event(2), event(3, "b"), timing=timed(min_interval=5))

    assert settled(dag).runs == [[1, 2, 3]]
