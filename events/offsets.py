"""Offsets stored in Kafka under a group's name. The group has no members: partitions are assigned by leases in Postgres."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import anyio
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NoError,
    NotCoordinatorError,
    for_code,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

_RETRIABLE = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
_RETRY_S = 0.1


class Stored(NamedTuple):
    """The next offset of a partition, and the note that was stored with it."""

    offset: int
    note: str


async def commit(client: AIOKafkaClient, group: str, offsets: Mapping[TopicPartition, int], note: str = "") -> None:
    """Store the next offset of each partition, with a note of at most 4,096 bytes. Raises KafkaError."""
    topics = defaultdict(list)
    for tp, offset in offsets.items():
        topics[tp.topic].append((tp.partition, offset, note))
    no_member = (OffsetCommitRequest.DEFAULT_GENERATION_ID, "", OffsetCommitRequest.DEFAULT_RETENTION_TIME)
    await _send_to_coordinator(client, group, OffsetCommitRequest(group, *no_member, list(topics.items())))


async def committed(
    client: AIOKafkaClient, group: str, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, Stored]:
    """What is stored for each partition that has an offset. Raises KafkaError."""
    topics = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp.partition)
    response = await _send_to_coordinator(client, group, OffsetFetchRequest(group, list(topics.items())))
    known = {
        TopicPartition(topic, number): Stored(offset, note or "")
        for topic, answers in response.topics
        for number, offset, note, _ in answers
    }
    return {tp: stored for tp, stored in known.items() if stored.offset >= 0}


async def _send_to_coordinator(client: AIOKafkaClient, group: str, request: Any) -> Any:
    """The response of the group's coordinator, retried until it is available."""
    while True:
        try:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            response = await client.send(node, request, group=ConnectionGroup.COORDINATION)
            errors = (for_code(code) for _, answers in response.topics for *_, code in answers)
            if (error := next((error for error in errors if error is not NoError), None)) is not None:
                raise error(group)
        except _RETRIABLE:
            await anyio.sleep(_RETRY_S)
        else:
            return response
