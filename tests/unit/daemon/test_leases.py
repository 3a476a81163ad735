"""What a daemon believes to own."""

from uuid import uuid4

import anyio
import pytest

from tidegate.daemon.intake.batches import partitions_of
from tidegate.daemon.leases import HeldLeases
from tidegate.schemas.queries.leases import CLOCK, PARTITION, Job, Lease, Terms

TTL_S = 100.0


@pytest.mark.parametrize(("late_s", "generation"), [(0.0, 1), (0.4 * TTL_S, 1), (0.6 * TTL_S, 2), (TTL_S, 2), (2 * TTL_S, 2)])
async def test_a_daemon_that_renews_late_may_have_been_taken_for_dead(late_s: float, generation: int) -> None:
    """Also when it is not quite as late as others wait: their clock may be a little faster."""
    held_leases = HeldLeases(Job(uuid4(), "host", 1, "test", Terms(lease_ttl_s=TTL_S)))

    held_leases.update([], anyio.current_time() - late_s)
    held_leases.update([], anyio.current_time())

    assert held_leases.lease_generation == generation


async def test_keys_that_are_no_numbers_are_left_out() -> None:
    keys = ["0", "7", "12", "", "-1", "007", "abc", "\u0663", "12345", "1.0"]
    held_leases = HeldLeases(Job(uuid4(), "host", 1, "test", Terms(lease_ttl_s=TTL_S)))
    held_leases.update([Lease(CLOCK, key, number, None, halted=False) for number, key in enumerate(keys)], anyio.current_time())

    assert held_leases.shards(CLOCK) == {0: 0, 7: 1, 12: 2}


def test_partitions_without_a_number_are_left_out() -> None:
    keys = ["t/0", "t/12", "t", "t/", "t/x", "t/-1", "t/007", "other/1", "garbage", "t/9999999999"]
    leases = {key: Lease(PARTITION, key, 1, 5, halted=False) for key in keys}

    assert [partition.partition for partition in partitions_of("t", leases)] == [0, 12]
