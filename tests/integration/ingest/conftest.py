"""A daemon's ingest on a real Kafka and a real Postgres."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.integration.cli.history import History
from tests.integration.ingest.intake import Intake
from tests.servers import MakeSettings
from tidegate.daemon.postgres.database import Database, connect
from tidegate.events import topics

FILE = """
from datetime import timedelta
from tidegate import Dag, Dataset
with Dag("pair", schedule=Dataset("lake://pair")) as dag:
    dag.command("first", ["true"], retries=1, retry_delay=timedelta(0))
    dag.command("second", ["true"])
"""


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
def history(database: Database) -> History:
    return History(database)


@pytest.fixture
async def attempts(history: History) -> list[UUID]:
    """The attempts of both tasks of a run; they run."""
    await history.file(FILE, "pair.py")
    await history.updated("lake://pair")
    begun = await history.attempts_begin()
    return [each.submission_id for each in sorted(begun, key=lambda each: each.task_index)]
