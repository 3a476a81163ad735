"""Offsets kept in Kafka under a group's name. There is no group of members behind it: it is a memory, nothing more."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

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

_NOT_YET = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
_RETRY_S = 0.1


async def commit(client: AIOKafkaClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Remember the next offset of each partition. Raises KafkaError."""
    topics = defaultdict(list)
    for tp, offset in offsets.items():
        topics[tp.topic].append((tp.partition, offset, ""))
    nobody = (OffsetCommitRequest.DEFAULT_GENERATION_ID, "", OffsetCommitRequest.DEFAULT_RETENTION_TIME)
    await _ask(client, group, OffsetCommitRequest(group, *nobody, list(topics.items())))


async def committed(client: AIOKafkaClient, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
    """The next offset of each partition that has one. Raises KafkaError."""
    topics = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp.partition)
    response = await _ask(client, group, OffsetFetchRequest(group, list(topics.items())))
    known = {TopicPartition(topic, number): rest[0] for topic, answers in response.topics for number, *rest in answers}
    return {tp: offset for tp, offset in known.items() if offset >= 0}


async def _ask(client: AIOKafkaClient, group: str, request: Any) -> Any:
    """The answer of the group's coordinator, as soon as it has one."""
    while True:
        try:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            response = await client.send(node, request, group=ConnectionGroup.COORDINATION)
            errors = (for_code(code) for _, answers in response.topics for *_, code in answers)
            if (error := next((error for error in errors if error is not NoError), None)) is not None:
                raise error(group)
        except _NOT_YET:
            await anyio.sleep(_RETRY_S)
        else:
            return response
