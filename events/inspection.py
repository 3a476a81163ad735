"""What the brokers tell about topics: their partitions, their configuration, and what a user may do with them.

Nothing is created or changed, and no producer or consumer is disturbed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import anyio
import msgspec
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    NoError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from tidegate.events import connection
from tidegate.events.security import PLAINTEXT, client_options
from tidegate.schemas.kafka_security import KafkaSecurity

READ, WRITE, DESCRIBE = "Read", "Write", "Describe"
OPERATIONS: Mapping[str, int] = {READ: 3, WRITE: 4, DESCRIBE: 8}
"""The operations on a topic, by the names that the tools of Kafka have for them, with their numbers in the protocol."""


class PartitionState(msgspec.Struct, frozen=True):
    """A partition: how many replicas it has, how many of them are in sync, and whether one of them is its leader."""

    number: int
    has_leader: bool
    replicas: int
    in_sync: int


class TopicState(msgspec.Struct, frozen=True):
    """A topic. `allowed` are the operations of the user. No partitions: it does not exist, or the user may not describe it.

    `configuration` is None if the user may not read it.
    """

    allowed: frozenset[str]
    partitions: Sequence[PartitionState] = ()
    configuration: Mapping[str, str] | None = None


class Inspection(msgspec.Struct, frozen=True):
    """The topics by name, and whether the user may use the consumer group and the transactional id."""

    topics: Mapping[str, TopicState]
    may_use_group: bool
    may_use_transactional_id: bool


async def inspect(
    servers: str,
    topics: Collection[str],
    *,
    group: str,
    transactional_id: str,
    security: KafkaSecurity = PLAINTEXT,
    timeout_s: float,
) -> Inspection:
    """Ask Kafka. Raises UnavailableError when it does not answer in time, RequestError for an invalid address."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(timeout_s * 1000), **client_options(security))
    await connection.start(admin, servers, timeout_s, security)
    try:
        with connection.translated_errors(servers), anyio.fail_after(timeout_s):
            return Inspection(
                await _topics(admin, list(topics)),
                await _may_use(admin, CoordinationType.GROUP, group),
                await _may_use(admin, CoordinationType.TRANSACTION, transactional_id),
            )
    finally:
        await connection.stop(admin)


async def _topics(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> Mapping[str, TopicState]:
    described = (await admin._send_request(_MetadataWithRights(topics))).to_object()["topics"]
    states = {each["topic"]: _state(each) for each in described}
    existing = [topic for topic, state in states.items() if state.partitions]
    configurations = await _configurations(admin, existing) if existing else {}
    return {topic: msgspec.structs.replace(state, configuration=configurations.get(topic)) for topic, state in states.items()}


def _state(described: Mapping[str, Any]) -> TopicState:
    """Raises KafkaError."""
    error = for_code(described["error_code"])
    if error is TopicAuthorizationFailedError:
        return TopicState(frozenset())
    if error is UnknownTopicOrPartitionError:
        return TopicState(frozenset(OPERATIONS))
    if not described["partitions"]:
        raise error(described["topic"])
    bits = described["topic_authorized_operations"]
    allowed = frozenset(name for name, number in OPERATIONS.items() if bits >> number & 1)
    return TopicState(allowed, tuple(map(_partition, described["partitions"])))


def _partition(described: Mapping[str, Any]) -> PartitionState:
    has_leader = described["leader"] >= 0
    return PartitionState(described["partition"], has_leader, len(described["replicas"]), len(described["isr"]))


async def _configurations(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The configurations that the user may read."""
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics])
    resources = (resource for answer in answers for resource in answer.to_object()["resources"])
    return {
        resource["resource_name"]: {entry["config_names"]: entry["config_value"] or "" for entry in resource["config_entries"]}
        for resource in resources
        if for_code(resource["error_code"]) is NoError
    }


async def _may_use(admin: AIOKafkaAdminClient, kind: CoordinationType, name: str) -> bool:
    """Whether a group or a transactional id is not refused; a coordinator that is away is none of the user's rights."""
    response = await admin._send_request(FindCoordinatorRequest(name, kind))
    return for_code(response.error_code) not in (GroupAuthorizationFailedError, TransactionalIdAuthorizationFailed)


class _MetadataWithRights:
    """A request of the version of the protocol that has the rights: the client has earlier ones only. It creates no topic."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Any:
        """The structure that the client sends. Raises IncompatibleBrokerVersion for brokers before Kafka 2.3."""
        least, most = versions[_METADATA["API_KEY"]]
        if not least <= _METADATA["API_VERSION"] <= most:
            raise IncompatibleBrokerVersion(f"the brokers do not tell rights in version {_METADATA['API_VERSION']} of Metadata")
        return _REQUEST(list(self._topics), False, False, True)  # noqa: FBT003 - as in the schema


_METADATA = {"API_KEY": 3, "API_VERSION": 8}
_PARTITION = Array(
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", Array(Int32)),
    ("isr", Array(Int32)),
    ("offline_replicas", Array(Int32)),
)
_TOPIC = Array(
    ("error_code", Int16),
    ("topic", String("utf-8")),
    ("is_internal", Boolean),
    ("partitions", _PARTITION),
    ("topic_authorized_operations", Int32),
)
_BROKER = Array(("node_id", Int32), ("host", String("utf-8")), ("port", Int32), ("rack", String("utf-8")))
_ANSWER = Schema(
    ("throttle_time_ms", Int32),
    ("brokers", _BROKER),
    ("cluster_id", String("utf-8")),
    ("controller_id", Int32),
    ("topics", _TOPIC),
    ("cluster_authorized_operations", Int32),
)
_QUESTION = Schema(
    ("topics", Array(String("utf-8"))),
    ("allow_auto_topic_creation", Boolean),
    ("include_cluster_authorized_operations", Boolean),
    ("include_topic_authorized_operations", Boolean),
)
_RESPONSE = type("_Response", (Response,), {**_METADATA, "SCHEMA": _ANSWER})
_REQUEST = type("_Request", (RequestStruct,), {**_METADATA, "SCHEMA": _QUESTION, "RESPONSE_TYPE": _RESPONSE})
"""Made by calls: the classes of the client have no types that a subclass could be checked against."""
