"""The Kafka topics: names, keys of records, and creation."""

from collections.abc import Mapping, Sequence

import anyio
import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import NoError, RequestTimedOutError, TopicAlreadyExistsError, for_code

from tidegate.events import connection
from tidegate.events.security import PLAINTEXT, client_options
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import Kind

DAY_MS = 24 * 3600 * 1000
RETENTION_MS = 7 * DAY_MS
TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.05

SAFE_COPIES, SAFE_IN_SYNC = 3, 2
"""With this many replicas, min.insync.replicas defaults to this many: one broker may be away or lost without loss of records."""

POLICY: Mapping[Kind, Mapping[str, str]] = {
    Kind.DAG_RUN_STATE: {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(RETENTION_MS),
        "segment.ms": str(DAY_MS),
    }
}
"""Run states are compacted after the retention of other events, so that the topic alone has the last state of every run. Task
states have the key of their run; compaction would keep only one task's state.
"""


def name(prefix: str, kind: Kind) -> str:
    """The topic of a kind of event, such as `tidegate.dataset-updated`."""
    return f"{prefix}{kind}"


def run_key(dag_id: str, run_id: str) -> str:
    """The key of all records about a run, which keeps them in one partition and in order."""
    return f"{dag_id}/{run_id}"


class Created(msgspec.Struct, frozen=True):
    """A topic after `create`. One that `existed` is unchanged. `wanted` is the requested number of partitions."""

    topic: str
    existed: bool
    partitions: int
    wanted: int

    @property
    def differs(self) -> bool:
        """Whether an existing topic has another number of partitions. It is not changed: keys would move."""
        return self.partitions != self.wanted


async def create(
    servers: str,
    prefix: str,
    partitions: int,
    replication: int,
    *,
    min_in_sync: int = 0,
    security: KafkaSecurity = PLAINTEXT,
) -> Sequence[Created]:
    """Create the missing topics, and wait until every partition of all topics has a leader.

    `replication`: replicas of each partition. `min_in_sync`: min.insync.replicas; 0 means 2 with three or more replicas, and the
    brokers' default with fewer. Raises UnavailableError when Kafka is away, RequestError when it refuses, as for
    more replicas than brokers.
    """
    if min_in_sync > replication:
        raise RequestError(
            f"{min_in_sync} replicas can never be in sync: there are {replication}; set min_in_sync to {replication} at most"
        )
    wanted = [name(prefix, kind) for kind in Kind]
    config = _TopicConfig(partitions, replication, min_in_sync or (SAFE_IN_SYNC if replication >= SAFE_COPIES else 0))
    admin = AIOKafkaAdminClient(
        bootstrap_servers=servers, request_timeout_ms=connection.REQUEST_TIMEOUT_MS, **client_options(security)
    )
    await connection.start(admin, servers, TIMEOUT_S, security)
    try:
        with connection.translated_errors(servers), anyio.fail_after(TIMEOUT_S):
            await _until_controlled(admin)
            existed = await _create(admin, [_new_topic(name(prefix, kind), kind, config) for kind in Kind])
            counts = await _partition_counts(admin, wanted)
    finally:
        await connection.stop(admin)
    return [Created(topic, topic in existed, counts[topic], partitions) for topic in wanted]


class _TopicConfig(msgspec.Struct, frozen=True):
    """`min_in_sync` 0 leaves it to the brokers."""

    partitions: int
    replication: int
    min_in_sync: int


def _new_topic(topic: str, kind: Kind, config: _TopicConfig) -> NewTopic:
    options = {**POLICY.get(kind, {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)})}
    if config.min_in_sync:
        options["min.insync.replicas"] = str(config.min_in_sync)
    return NewTopic(topic, config.partitions, config.replication, topic_configs=options)


async def _until_controlled(admin: AIOKafkaAdminClient) -> None:
    """A broker that has just started may tell of no controller yet, to which the client sends without a look."""
    client = connection.network_client(admin)
    while client.cluster.controller is None:
        await client.force_metadata_update()
        await anyio.sleep(LOOK_EVERY_S)


async def _create(admin: AIOKafkaAdminClient, topics: Sequence[NewTopic]) -> set[str]:
    """Create the topics; returns the existing ones."""
    existed = set()
    response = await admin.create_topics(list(topics))
    for topic, code, message in response.topic_errors:
        error = for_code(code)
        if error is TopicAlreadyExistsError:
            existed.add(topic)
        elif error is RequestTimedOutError:
            raise UnavailableError(f"Kafka did not create {topic} in time")
        elif error is not NoError:
            raise RequestError(f"Kafka refused to create {topic}: {message or error.__name__}")
    return existed


async def _partition_counts(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> Mapping[str, int]:
    """The partition counts, once every partition has a leader."""
    while True:
        partitions = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics(list(topics))}
        if all(partitions.get(topic) and all(p["leader"] >= 0 for p in partitions[topic]) for topic in topics):
            return {topic: len(partitions[topic]) for topic in topics}
        await anyio.sleep(LOOK_EVERY_S)
