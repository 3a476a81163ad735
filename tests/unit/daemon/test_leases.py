"""What a daemon believes to own."""

from uuid import uuid4

import anyio
import pytest

from tidegate.daemon.leases import HeldLeases
from tidegate.schemas.queries.leases import Job, Terms

TTL_S = 100.0


@pytest.mark.parametrize(("late_s", "generation"), [(0.0, 1), (0.4 * TTL_S, 1), (0.6 * TTL_S, 2), (TTL_S, 2), (2 * TTL_S, 2)])
async def test_who_renews_late_may_have_been_taken_for_dead(late_s: float, generation: int) -> None:
    """Also when it is not quite as late as others wait: their clock may be a little faster."""
    held_leases = HeldLeases(Job(uuid4(), "host", 1, "test", Terms(lease_ttl_s=TTL_S)))

    held_leases.update([], anyio.current_time() - late_s)
    held_leases.update([], anyio.current_time())

    assert held_leases.lease_generation == generation
