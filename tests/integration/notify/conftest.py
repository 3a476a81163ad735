"""Deadlines and notifications on a real Postgres, with receivers on loopback."""

import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.cli.history import History
from tests.integration.notify.hook import SECRET, Hook
from tests.integration.notify.mailbox import Mailbox, serve
from tests.integration.notify.notified_dag import NotifiedDag
from tests.integration.notify.post import Post
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
def notified(database: Database) -> NotifiedDag:
    return NotifiedDag(database, History(database))


@pytest.fixture
def settings(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Kafka is away: nothing of this needs it."""
    home = tmp_path_factory.mktemp("post")
    (home / "dags").mkdir()
    return Settings(
        postgres_dsn=dsn,
        kafka_servers="127.0.0.1:9",
        dags_folder=str(home / "dags"),
        spool_dir=str(home / "spool"),
        sweep_s=0.05,
        notify_retry_s=0.01,
        notify_timeout_s=10.0,
        webhook_secret=SECRET,
        runner_heartbeat_s=0.2,
    )


@pytest.fixture
def post(settings: Settings, database: Database) -> Post:
    """A daemon that does nothing but send notifications."""
    return Post(settings, database)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as hook:
        yield hook


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    async with serve() as mailbox:
        yield mailbox


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Database]:
    """As another daemon has it."""
    async with connect(dsn) as database:
        yield database


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A port of loopback that refuses connections, and that no server gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
