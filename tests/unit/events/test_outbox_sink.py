"""Which partitions get nothing for now, and what was acknowledged late."""

from collections.abc import Sequence

import pytest

from tidegate.events.outbox_sink import REST_S, AcknowledgedLate, RestingPartitions, take_unsent
from tidegate.events.sink import ProducerRecord
from tidegate.events.source import Partition

A, B = Partition("t", 0), Partition("t", 1)
WHY = "no leader"


def record(number: int) -> ProducerRecord:
    return ProducerRecord("t", b"key", b"%d" % number)


def test_a_partition_rests_until_it_answers_or_is_tried_again() -> None:
    resting = RestingPartitions()

    resting.await_answer(A, 10.0)
    assert (resting.all(), resting.overdue(9.9), resting.overdue(10.0)) == ({A}, [], [A])
    resting.give_up(A, WHY, 10.0)
    assert (resting.all(), resting.overdue(99.0)) == ({A}, [])
    resting.end_rests(10.0 + REST_S - 0.1)
    assert A in resting
    resting.end_rests(10.0 + REST_S)
    assert A not in resting
    resting.await_answer(A, 30.0)
    resting.answered(A)
    assert resting.all() == set()


@pytest.mark.parametrize("again", ["given up", "on its way"])
def test_a_partition_is_silent_from_its_second_try_on_until_it_answers(again: str) -> None:
    resting = RestingPartitions()
    resting.give_up(A, "unknown", 0.0)
    once = dict(resting.silent)
    if again == "given up":
        resting.give_up(A, WHY, 10.0)
    else:
        resting.await_answer(A, 10.0)
    twice = dict(resting.silent)
    resting.answered(A)
    resting.give_up(A, WHY, 20.0)

    assert (once, twice, resting.silent) == ({}, {A: WHY if again == "given up" else "unknown"}, {})


def test_a_closed_producer_awaits_no_answer() -> None:
    resting = RestingPartitions()
    resting.await_answer(A, 10.0)
    resting.give_up(B, WHY, 0.0)
    resting.forget_batches()

    assert (resting.all(), resting.overdue(99.0)) == ({B}, [])


@pytest.mark.parametrize(
    ("late", "asked", "sent"),
    [
        pytest.param([], [1, 2], [1, 2], id="nothing was acknowledged late"),
        pytest.param([1, 2], [1, 2, 3], [3], id="the rest follows"),
        pytest.param([1, 2], [1, 2], [], id="all of it"),
        pytest.param([2, 3], [1, 2, 3], [1, 2, 3], id="an older one comes again, and so do those after it"),
        pytest.param([1, 3], [1, 2, 3], [2, 3], id="a gap"),
    ],
)
def test_what_was_acknowledged_late_is_not_sent_again(late: Sequence[int], asked: Sequence[int], sent: Sequence[int]) -> None:
    known, records = AcknowledgedLate(), [record(number) for number in asked]
    known.add(A, [record(number) for number in late])
    waits: list[Partition | None] = [A] * len(records)

    unsent = take_unsent(records, waits, lambda _: True, known)

    assert [asked[index] for index in unsent] == sent
    assert [place for place in waits if place] == [A] * len(sent)


def test_what_was_acknowledged_late_may_be_asked_for_page_by_page() -> None:
    known = AcknowledgedLate()
    known.add(A, [record(1), record(2)])

    assert [known.count(A, [record(1)]), known.count(A, [record(2), record(3)]), known.count(A, [record(1)])] == [1, 1, 0]


def test_the_records_of_a_partition_that_rests_are_left_out() -> None:
    waits: list[Partition | None] = [A, B, A]

    assert take_unsent([record(1), record(2), record(3)], waits, {B}.__contains__, AcknowledgedLate()) == [1]
    assert waits == [A, B, A]
