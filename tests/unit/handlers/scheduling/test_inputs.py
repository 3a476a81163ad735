"""Which events are inputs of a condition."""

from typing import Any

import pytest

from tests.shapes import A, B, dag_view
from tests.unit.handlers.event_driven_dags import at, consumer, event, expiring, scheduled, timed
from tests.unit.handlers.timed_dags import timed as by_time
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied, evaluated
from tidegate.handlers.scheduling.inputs import CACHED_EXTRA, EXPIRED, FILTERED, NOT_SCHEDULED
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, PatternRef
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.explain.reasons import ConditionBroken, InputsMissing

MANY = DatasetRef("s://a", "n > 2")
FEW = DatasetRef("s://a", "n <= 2")


def test_an_event_that_no_filter_accepts_is_discarded() -> None:
    done = scheduled(consumer(AllOf((MANY, B)), event(1, n=1), event(2, n=3), event(3, "b")))

    assert (done.runs, done.discarded) == ([[2, 3]], {FILTERED: [1]})


def test_a_filter_reads_a_long_extra_as_well() -> None:
    """It is not cached."""
    done = scheduled(consumer(MANY, *(event(id_, n=id_, text="x" * CACHED_EXTRA) for id_ in (2, 3))))

    assert (done.runs, done.discarded) == ([[3]], {FILTERED: [2]})


def test_an_event_that_a_filter_cannot_compare_says_why() -> None:
    done = scheduled(consumer(AnyOf((DatasetRef("s://a", "n == 2"), MANY)), event(1, m=1), event(2, m=2), event(3, n="3")))

    assert done.discarded == {f"{FILTERED}: its extra has no `n`": [1, 2], f"{FILTERED}: `n` is a text and 2 a number": [3]}


def test_an_event_is_an_input_only_of_leaves_whose_filter_accepts_it() -> None:
    both = AllOf((MANY, FEW))

    assert scheduled(consumer(both, event(1, n=3), event(2, n=4))).runs == []
    assert scheduled(consumer(both, event(1, n=3), event(2, n=1))).runs == [[1, 2]]


def test_an_event_of_a_dataset_outside_the_condition_is_discarded() -> None:
    done = scheduled(consumer(MANY, event(1, "b", n=3)))

    assert (done.runs, done.discarded) == ([], {NOT_SCHEDULED: [1]})


def test_one_event_of_any_dataset_that_a_pattern_matches_is_enough() -> None:
    done = scheduled(
        consumer(AllOf((PatternRef("s://t/*"), A)), event(1, "a"), event(2, "t/1"), event(3, "t/2"), event(4, "t/x/1"))
    )

    assert (done.runs, done.discarded) == ([[1, 2, 3]], {NOT_SCHEDULED: [4]})


def test_an_event_expires_at_its_expiry_and_not_before() -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), event(1))

    assert scheduled(dag, 4.9).discarded == {}
    assert scheduled(dag, 5).discarded == {EXPIRED: [1]}


def test_the_clock_visits_a_dag_when_the_next_event_expires() -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), event(1), event(2, arrived=-1))

    assert scheduled(dag).wakeup == 4


def test_an_event_of_two_leaves_expires_with_the_later_one() -> None:
    dag = consumer(AllOf((AnyOf((expiring("a", 5), expiring("a", 9, "n > 2"))), B)), event(1, n=3), event(2, n=1))
    for_ever = consumer(AllOf((AnyOf((expiring("a", 5), A)), B)), event(1))

    assert (scheduled(dag, 5).discarded, scheduled(dag, 5).wakeup) == ({EXPIRED: [2]}, 9)
    assert (scheduled(for_ever, 50).discarded, scheduled(for_ever, 50).wakeup) == ({}, None)


def test_an_event_may_have_expired_when_it_arrives() -> None:
    assert scheduled(consumer(expiring("a", 5), event(1, happened=-6))).discarded == {EXPIRED: [1]}


def test_a_producer_whose_clock_is_ahead_delays_no_expiry() -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), event(1, happened=60))

    assert scheduled(dag, 5).discarded == {EXPIRED: [1]}


def test_a_paused_dag_discards_rejected_events_and_starts_no_run() -> None:
    done = scheduled(consumer(MANY, event(1, n=1), event(2, n=3), is_paused=True, due_at=at(3)))

    assert (done.runs, done.discarded, done.wakeup) == ([], {FILTERED: [1]}, None)


@pytest.mark.parametrize("held", [{"is_paused": True}, {"is_stale": True}], ids=["paused", "stale"])
def test_pending_events_of_a_held_dag_expire(held: dict[str, Any]) -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), event(1, arrived=-1), **held)

    before, then = scheduled(dag), scheduled(dag, 4)

    assert (before.discarded, before.wakeup) == ({}, 4)
    assert (then.discarded, then.wakeup) == ({EXPIRED: [1]}, None)


def test_new_events_are_inspected_even_if_the_pending_ones_were_not_read() -> None:
    new = (event(7, n=1), event(8, n=3))
    dag = consumer(AllOf((MANY, expiring("b", 5))), unread=True, arrived=(*new, event(9, "b", arrived=-2)), due_at=at(4))

    done = scheduled(dag)

    assert (done.runs, done.discarded, done.wakeup) == ([], {FILTERED: [7]}, 3)


def test_an_unread_dag_keeps_its_wakeup() -> None:
    dag = consumer(AllOf((expiring("a", 5), B)), unread=True, due_at=at(4))

    assert (scheduled(dag).wakeup, scheduled(dag, 4).wakeup) == (4, None)


def test_a_condition_with_an_invalid_filter_starts_no_run_and_is_noted() -> None:
    broken = consumer(DatasetRef("s://a", "n >"), event(1, n=1), due_at=at(9))

    done = scheduled(broken)

    said = "FilterError: at character 4 of 'n >': expected a field or a value, found the end"
    assert (done.runs, done.discarded, done.noted, done.wakeup) == ([], {}, [("condition_error", said)], None)
    assert next_dataset_run(broken, at(0)) == ConditionBroken(said)


def test_an_evaluation_without_memory_is_no_fault_of_its_condition() -> None:
    def evaluate() -> Satisfied:
        raise MemoryError

    with pytest.raises(MemoryError):
        evaluated(evaluate)


def test_a_condition_with_an_invalid_filter_blocks_no_timed_run() -> None:
    dag = dag_view(by_time(-1, schedule=DatasetRef("s://a", "n >")), timed_run_ids=(201,), pending=(event(1),))

    done = scheduled(dag)

    assert [effect.run_type for effect in done.effects if isinstance(effect, InsertRun)] == ["scheduled"]


def test_the_blocker_names_the_missing_inputs() -> None:
    dag = consumer(AllOf((MANY, PatternRef("s://t/*"), B)), event(1, n=1), event(2, "b"))

    assert next_dataset_run(dag, at(0)) == InputsMissing(("s://a[n > 2]", "s://t/*"))


def test_a_run_consumes_all_inputs_whichever_leaf_they_belong_to() -> None:
    dag = consumer(AnyOf((expiring("a", 5), B)), event(1), event(2), event(3, "b"), timing=timed(min_interval=5))

    assert scheduled(dag).runs == [[1, 2, 3]]
