"""What a daemon believes to own."""

from uuid import uuid4

import anyio
import pytest

from tidegate.daemon.leases import Holdings
from tidegate.schemas.queries.leases import Job, Terms

TTL_S = 100.0


@pytest.mark.parametrize(("late_s", "lives"), [(0.0, 1), (0.4 * TTL_S, 1), (0.6 * TTL_S, 2), (TTL_S, 2), (2 * TTL_S, 2)])
async def test_who_renews_late_may_have_been_taken_for_dead(late_s: float, lives: int) -> None:
    """Also when it is not quite as late as others wait: their clock may be a little faster."""
    holdings = Holdings(Job(uuid4(), "host", 1, "test", Terms(lease_ttl_s=TTL_S)))

    holdings.replace([], anyio.current_time() - late_s)
    holdings.replace([], anyio.current_time())

    assert holdings.lives == lives
