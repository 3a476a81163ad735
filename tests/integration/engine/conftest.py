"""The engine on a real Postgres, without Kafka: messages are given to it directly."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.postgres import database as databases
from tidegate.daemon.postgres.database import Database, connect


@pytest.fixture
async def database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """Its transactions may take as long as they do on a machine with other work."""
    monkeypatch.setattr(databases, "TRANSACTION_S", 120.0)
    async with connect(dsn) as database:
        yield database


@pytest.fixture
def world(database: Database) -> World:
    """It is the first of May 2024, ten past noon."""
    return World(database, utc(2024, 5, 1, 12, 10))
