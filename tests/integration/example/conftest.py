"""Installations of the example on the run's servers; afterwards nothing of their tasks may run."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from tests import servers
from tests.integration.example.host import Host
from tidegate.daemon.settings import Settings
from tidegate.events import topics


@pytest.fixture(scope="module")
def host(portal: BlockingPortal, broker: str, spark_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One installation for all tests of a file."""
    prefix = f"example-{uuid4().hex[:8]}."
    portal.call(topics.create, broker, prefix, 1, 1)
    folder = tmp_path_factory.mktemp("example")
    settings = Settings(
        postgres_dsn="postgresql://unused",
        kafka_servers=broker,
        topic_prefix=prefix,
        dags_folder=str(folder / "dags"),
        spool_dir=str(folder / "spool"),
        spark_remote=spark_connect,
    )
    yield Host(settings)
    portal.call(servers.delete_topics, broker, prefix)
