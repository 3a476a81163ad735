"""A primary and its standby, with our schema."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.failover.primary_with_standby import Couple
from tidegate.daemon.postgres.migrate import migrate


@pytest.fixture
async def couple(tmp_path: Path) -> AsyncIterator[Couple]:
    """Commits wait for the standby."""
    async with Couple(tmp_path / "postgres") as couple:
        await migrate(couple.dsn)
        yield couple


@pytest.fixture
async def loose_couple(tmp_path: Path) -> AsyncIterator[Couple]:
    """Commits do not wait for the standby."""
    async with Couple(tmp_path / "postgres", synchronous=False) as couple:
        await migrate(couple.dsn)
        yield couple
