"""A daemon's ingest on a real Kafka and a real Postgres."""

from collections.abc import AsyncIterator

import pytest

from tests.integration.cli.past import Past
from tests.integration.ingest.intake import Intake
from tests.servers import MakeSettings
from tidegate.daemon.database import Database, connect
from tidegate.events import topics


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
async def intake(settings: MakeSettings, database: Database) -> Intake:
    """Topics of one partition each, and a daemon that reads them when asked to."""
    mine = settings(topic_partitions=1, lease_renew_s=0.1)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    return Intake(mine, database)


@pytest.fixture
def past(database: Database) -> Past:
    return Past(database)
