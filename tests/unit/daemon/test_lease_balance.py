"""Who has how much of the work."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tidegate.daemon.lease_balance import Share, share
from tidegate.schemas.queries.leases import DaemonRank, Group, Lease

TASKS, UPDATES, OUTBOX = Group("partition", "task-finished"), Group("partition", "dataset-updated"), Group("outbox", "")
ALONE = DaemonRank(0, 1)
FIRST_OF_TWO = dict.fromkeys((TASKS, UPDATES, OUTBOX), DaemonRank(0, 2))

counts = st.dictionaries(st.sampled_from([Group("partition", name) for name in "abcd"] + [OUTBOX]), st.integers(0, 40))


def lease(group: Group, number: int, *, halted: bool = False) -> Lease:
    key = f"{group.topic}/{number}" if group.topic else str(number)
    return Lease(group.kind, key, epoch=1, next_offset=None, halted=halted)


def due(counts: Mapping[Group, int], daemons: int) -> list[Mapping[Group, int]]:
    """What each is to ask for who has nothing yet."""
    return [share([], counts, dict.fromkeys(counts, DaemonRank(number, daemons))).wanted for number in range(daemons)]


@given(counts, st.integers(1, 9))
def test_no_daemon_has_more_than_one_more_than_another_of_any_group_nor_in_all(counts: Mapping[Group, int], daemons: int) -> None:
    dealt = due(counts, daemons)

    for group, count in counts.items():
        hands = [hand[group] for hand in dealt]
        assert sum(hands) == count
        assert max(hands) - min(hands) <= 1
    hands = [sum(hand.values()) for hand in dealt]
    assert max(hands, default=0) - min(hands, default=0) <= 1


def test_what_is_beyond_the_share_is_given_up_the_last_of_each_group_first() -> None:
    owned = [lease(group, number) for group in (UPDATES, OUTBOX) for number in (2, 1, 0)]

    mine = share(owned, {UPDATES: 4, OUTBOX: 6}, FIRST_OF_TWO)

    assert mine.surplus == (lease(UPDATES, 2),)
    assert mine.wanted == {UPDATES: -1, OUTBOX: 0}


def test_one_topic_does_not_make_up_for_another() -> None:
    owned = [lease(UPDATES, number) for number in range(6)]

    assert share(owned, {TASKS: 6, UPDATES: 6}, FIRST_OF_TWO).wanted == {TASKS: 3, UPDATES: -3}


def test_a_daemon_alone_has_all() -> None:
    assert share([], {TASKS: 3, UPDATES: 5}, {TASKS: ALONE, UPDATES: ALONE}).wanted == {TASKS: 3, UPDATES: 5}


def test_a_halted_partition_is_in_no_share() -> None:
    owned = [lease(UPDATES, 0, halted=True), lease(UPDATES, 1)]

    assert share(owned, {UPDATES: 2}, FIRST_OF_TWO).wanted == {UPDATES: 0}


def test_a_daemon_has_no_leases_of_a_group_that_it_does_not_share() -> None:
    """The daemon that shares the group alone has all of its leases."""
    counts, owned = {TASKS: 5, UPDATES: 3}, [lease(TASKS, 0)]
    old, new = {UPDATES: DaemonRank(0, 2)}, {TASKS: ALONE, UPDATES: DaemonRank(1, 2)}

    mine, of_the_other = share(owned, counts, old), share([], counts, new)

    assert mine == Share((lease(TASKS, 0),), {TASKS: -1, UPDATES: 1})
    assert of_the_other == Share((), {TASKS: 5, UPDATES: 2})
