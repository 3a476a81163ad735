"""Partitions without a leader, as the Kafka client knows them from a broker's answer."""

from types import SimpleNamespace
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import LeaderNotAvailableError
from aiokafka.protocol.metadata import MetadataResponse_v1

from tidegate.events.source import Partition, Source, leaders

LED, LEADERLESS, ABSENT = Partition("t", 0), Partition("t", 1), Partition("t", 2)


@pytest.fixture
def metadata() -> ClusterMetadata:
    """Broker 1 leads partition 0; no broker leads partition 1."""
    partitions = [(0, 0, 1, [1], [1]), (LeaderNotAvailableError.errno, 1, -1, [2], [])]
    known = ClusterMetadata()
    known.update_metadata(MetadataResponse_v1([(1, "127.0.0.1", 9092, None)], 1, [(0, "t", False, partitions)]))
    return known


def test_each_partition_of_a_topic_has_a_leader_or_none(metadata: ClusterMetadata) -> None:
    assert leaders(metadata, "t") == {0: True, 1: False}
    assert leaders(metadata, "u") == {}


async def test_lag_asks_for_no_partition_without_a_leader(metadata: ClusterMetadata) -> None:
    """The answer about all others would wait for it."""
    asked: list[tuple[str, int]] = []

    async def end_offsets(partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        asked.extend(partitions)
        return {}

    source = Source("")
    source._positions = {LED: 0, LEADERLESS: 0, ABSENT: 0}
    source._consumer = cast(AIOKafkaConsumer, SimpleNamespace(_client=SimpleNamespace(cluster=metadata)))
    source._metadata_consumer = cast(AIOKafkaConsumer, SimpleNamespace(end_offsets=end_offsets))

    await source.lag()

    assert source.leaderless() == {LEADERLESS}
    assert asked == [LED, ABSENT]
