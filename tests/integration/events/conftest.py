"""Topics of each test, and independent clients to fill them."""

import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from tidegate.daemon.standalone.kafka import Kafka
from tidegate.events import topics
from tidegate.events.source import Partition, Record, Source
from tidegate.schemas.wire.event import Kind

PARTITIONS = 3


@pytest.fixture
async def topic(kafka: str, topic_prefix: str) -> str:
    """The dataset topic, with three partitions."""
    await topics.create(kafka, topic_prefix, PARTITIONS, 1)
    return topics.name(topic_prefix, Kind.DATASET_UPDATED)


class Fragile:
    """A Kafka to break. It lives in another loop, so that many tests can share it."""

    def __init__(self, portal: BlockingPortal, server: Kafka) -> None:
        self.portal = portal
        self.server = server
        self.bootstrap = server.bootstrap

    async def kill(self) -> None:
        await to_thread.run_sync(self.portal.call, self.server.kill)

    async def start(self) -> None:
        await to_thread.run_sync(self.portal.call, self.server.start)

    def freeze(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)
        while psutil.Process(self.server.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)  # on a busy machine it may still answer for a moment

    def thaw(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def fragile_server(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Kafka]:
    """A Kafka at rest takes a fiftieth of a core: it ends with its file."""
    server = Kafka(tmp_path_factory.mktemp("fragile"), cache)
    with portal.wrap_async_context_manager(server):
        yield server
    shutil.rmtree(server.home)


@pytest.fixture
async def fragile(portal: BlockingPortal, fragile_server: Kafka, topic_prefix: str) -> Fragile:
    """A Kafka to break, that runs and has the test's topics."""
    kafka = Fragile(portal, fragile_server)
    if not fragile_server.process.alive:
        await kafka.start()
    await topics.create(kafka.bootstrap, topic_prefix, PARTITIONS, 1)
    return kafka


@pytest.fixture
async def producer(kafka: str) -> AsyncIterator[AIOKafkaProducer]:
    """A producer as others would write it."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, max_request_size=4 << 20) as producer:
        yield producer


def beginning(topic: str) -> Mapping[Partition, int]:
    return {Partition(topic, number): 0 for number in range(PARTITIONS)}


async def read(source: Source, count: int) -> list[Record]:
    """The next records, as many as asked for; fewer when no more come."""
    records: list[Record] = []
    while len(records) < count:
        fetched = await source.fetch(20.0, count - len(records))
        if not fetched:
            break
        records += [record for batch in fetched.values() for record in batch]
    return records
