"""The engine on a real Postgres, without Kafka: messages are given to it directly."""

from collections.abc import AsyncIterator

import pytest

from tidegate.daemon.database import Database, connect


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database
