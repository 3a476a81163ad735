"""Topics of the test's own, and ways to fill them that are not ours."""

from collections.abc import AsyncIterator, Mapping

import pytest
from aiokafka import AIOKafkaProducer

from tidegate.events import topics
from tidegate.events.source import Partition, Record, Source
from tidegate.schemas.event import Kind

PARTITIONS = 3


@pytest.fixture
async def topic(kafka: str, topic_prefix: str) -> str:
    """The dataset topic, with three partitions."""
    await topics.create(kafka, topic_prefix, PARTITIONS, 1)
    return topics.name(topic_prefix, Kind.DATASET_UPDATED)


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
        fetched = await source.fetch(5.0, count - len(records))
        if not fetched:
            break
        records += [record for batch in fetched.values() for record in batch]
    return records
