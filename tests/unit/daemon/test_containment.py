"""Faults that no message has caused."""

from collections.abc import Sequence

import asyncpg
import pytest

from tidegate.daemon.containment import bisect


async def test_rights_that_are_withdrawn_for_a_time_cost_no_message() -> None:
    async def act(_: Sequence[int]) -> None:
        raise asyncpg.InsufficientPrivilegeError("permission denied for table dag_run")

    async def contain(_: Sequence[int], __: Exception) -> None:
        raise AssertionError

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await bisect([1, 2], act, contain)
