"""A partition that Kafka cannot deliver, or whose next record is too slow, is an outage of its own."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pytest

from tidegate.daemon.intake.batches import PartitionBatch, key_of, tried_alone
from tidegate.daemon.intake.unread import FIRST_PAUSE_S, LOCKED_PAUSE_S, LONGEST_PAUSE_S, SlowPartitions, UnreadPartitions, unread
from tidegate.daemon.outage import Outages
from tidegate.events.source import Partition
from tidegate.schemas.error import LockedError, TooSlowError
from tidegate.schemas.queries.leases import PARTITION, Lease

A, B = Partition("t", 0), Partition("t", 1)
NO_LEADER = "the partition has no leader: its records wait until a broker with a replica of it is back"
SLOW = TooSlowError("too slow", server="Postgres")
ABSENT = "Kafka has no such partition: t was created again with fewer; add partitions until it has 2"


@pytest.mark.parametrize(
    ("has_leader", "found"),
    [
        pytest.param({0: True, 1: True}, {}, id="all are read"),
        pytest.param({0: True, 1: True, 2: False}, {}, id="one of another daemon"),
        pytest.param({0: True, 1: False}, {B: NO_LEADER}, id="no leader"),
        pytest.param({0: True}, {B: ABSENT}, id="fewer partitions than before"),
    ],
)
def test_a_leased_partition_without_a_leader_or_without_a_place_in_kafka_is_not_read(
    has_leader: Mapping[int, bool], found: Mapping[Partition, str]
) -> None:
    assert unread([A, B], has_leader) == found


async def test_the_outage_of_a_partition_ends_once_it_is_read_again() -> None:
    outages = Outages()
    partitions = UnreadPartitions(outages, "t")

    partitions.report({A: NO_LEADER, B: ABSENT})
    both = {name: away.error for name, away in outages.away.items()}
    partitions.report({B: ABSENT})

    assert both == {"Kafka partition t/0": NO_LEADER, "Kafka partition t/1": ABSENT}
    assert outages.away.keys() == {"Kafka partition t/1"}
    assert partitions
    partitions.report({})
    assert (dict(outages.away), bool(partitions)) == ({}, False)


async def test_a_reader_that_starts_again_ends_the_outages_of_the_one_before() -> None:
    outages = Outages()
    UnreadPartitions(outages, "t").report({A: NO_LEADER})
    UnreadPartitions(outages, "other").report({Partition("other", 0): NO_LEADER})

    UnreadPartitions(outages, "t").report({})

    assert outages.away.keys() == {"Kafka partition other/0"}


class Slow:
    """A clock, and what happens to the records at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.partitions = SlowPartitions(lambda: self.now)

    def pause_s(self, partition: Partition = A, offset: int = 7) -> float:
        """Of a record that is too slow once more."""
        before = self.now
        self.partitions.leave_out(partition, offset, SLOW)
        while partition in self.partitions.left_out:
            self.now += 1.0
        return self.now - before


def test_a_record_that_is_too_slow_is_tried_again_after_pauses_that_double_as_others_are_applied() -> None:
    slow = Slow()
    pauses = []
    for _ in range(8):
        pauses.append(slow.pause_s())
        slow.partitions.applied([B])

    assert (pauses[:3], pauses[-1]) == ([FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S], LONGEST_PAUSE_S)
    assert list(slow.partitions.reasons) == [A]


def test_the_pauses_do_not_grow_while_no_record_is_applied_and_begin_anew_with_another_record() -> None:
    slow = Slow()

    alone = [slow.pause_s(), slow.pause_s()]
    slow.partitions.applied([B])
    longer, next_record = slow.pause_s(), slow.pause_s(offset=8)

    assert [*alone, longer, next_record] == [FIRST_PAUSE_S, FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, FIRST_PAUSE_S]


def test_postgres_is_too_slow_if_records_of_two_partitions_are_and_none_is_applied_in_between() -> None:
    slow = Slow()
    slow.pause_s(A)

    with pytest.raises(TooSlowError):
        slow.partitions.leave_out(B, 1, SLOW)
    slow.partitions.applied([Partition("t", 2)])
    slow.partitions.leave_out(B, 1, SLOW)

    assert slow.partitions.partitions == {A, B}


def test_a_partition_is_slow_until_its_record_is_applied_or_another_daemon_has_it() -> None:
    slow = Slow()
    for partition in (A, B):
        slow.pause_s(partition)
        slow.partitions.applied([])

    slow.partitions.applied([A])
    applied = slow.partitions.partitions
    slow.partitions.keep({A: lease(A)})

    assert [set(applied), set(slow.partitions.partitions)] == [{B}, set()]


def test_a_partition_is_slow_until_its_record_is_stepped_over() -> None:
    slow = Slow()
    slow.pause_s(A, offset=7)

    slow.partitions.keep({A: lease(A, 7)})
    waits = slow.partitions.reasons
    slow.partitions.keep({A: lease(A, 8)})

    assert waits == {
        A: "the record at offset 7 waits for another try: too slow; `tidegate topics skip t/0 --offset 7` makes it a dead letter"
    }
    assert slow.partitions.partitions == set()


def lease(partition: Partition, next_offset: int = 0) -> Lease:
    return Lease(PARTITION, key_of(partition), 1, next_offset, halted=False)


def batch(partition: Partition, *records: str) -> PartitionBatch:
    return PartitionBatch(partition, 1, cast(Any, records))


@pytest.mark.parametrize(
    ("slow", "parts"),
    [
        ([], [[batch(A, "1", "2"), batch(B, "3")]]),
        ([A], [[batch(B, "3")], [batch(A, "1")], [batch(A, "2")]]),
        ([A, B], [[batch(A, "1")], [batch(A, "2")], [batch(B, "3")]]),
    ],
)
def test_a_record_that_was_too_slow_is_tried_alone_after_all_others(
    slow: Collection[Partition], parts: Sequence[Sequence[PartitionBatch]]
) -> None:
    assert tried_alone([batch(A, "1", "2"), batch(B, "3")], slow) == parts


def test_a_record_that_needs_a_locked_row_is_tried_each_second_and_says_no_way_to_give_it_up() -> None:
    now = 0.0
    slow = SlowPartitions(lambda: now)

    for partition in (A, B, A):  # of several partitions in turn: it is no outage of Postgres
        slow.leave_out(partition, 5, LockedError("another session holds a row", server="Postgres"))
    early = slow.left_out
    now = LOCKED_PAUSE_S

    assert early == frozenset((A, B))
    assert slow.left_out == frozenset()
    assert slow.reasons[A] == "the record at offset 5 waits for another try: another session holds a row"
