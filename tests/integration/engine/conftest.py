"""The engine on a real Postgres, without Kafka: messages are given to it directly."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.postgres.database import Database, connect


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
def world(database: Database) -> World:
    """It is the first of May 2024, ten past noon."""
    return World(database, utc(2024, 5, 1, 12, 10))
