"""The topics: their names, what their records are keyed by, and how they are made."""

from collections.abc import Mapping, Sequence

import anyio
import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import NoError, RequestTimedOutError, TopicAlreadyExistsError, for_code

from tidegate.events import connection
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.wire.event import Kind

DAY_MS = 24 * 3600 * 1000
RETENTION_MS = 7 * DAY_MS
TIMEOUT_S = 30.0

SAFE_COPIES, SAFE_IN_SYNC = 3, 2
"""With so many copies of each record, so many must be written before it counts: any one broker may be away, or lost for good."""

POLICY: Mapping[Kind, Mapping[str, str]] = {
    Kind.DAG_RUN_STATE: {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(RETENTION_MS),
        "segment.ms": str(DAY_MS),
    }
}
"""Every move of a run is kept for as long as other events are, and its last one for good: the topic alone tells the state of all
runs. The moves of tasks have the key of their run and are not compacted: only the last one of a run would be left.
"""


def name(prefix: str, kind: Kind) -> str:
    """The topic that carries a kind of event, `tidegate.dataset-updated`."""
    return f"{prefix}{kind}"


def run_key(dag_id: str, run_id: str) -> str:
    """The key of everything that is about one run: one partition, hence in order."""
    return f"{dag_id}/{run_id}"


class Created(msgspec.Struct, frozen=True):
    """One topic after `create`. `existed`: it was there before and was left as it is."""

    topic: str
    existed: bool
    partitions: int
    wanted: int

    @property
    def differs(self) -> bool:
        """True where an older topic has another number of partitions; changing it would move keys."""
        return self.partitions != self.wanted


async def create(servers: str, prefix: str, partitions: int, replication: int, *, min_in_sync: int = 0) -> Sequence[Created]:
    """Make the topics that are missing, leave the others alone, and wait until all can be used.

    `replication` is how many copies there are of each record. `min_in_sync` of them must be written before it counts; 0 is two of
    three or more, else what the brokers say. Raises UnavailableError when Kafka is away, RequestError when it refuses (say, more
    replicas than brokers).
    """
    if min_in_sync > replication:
        raise RequestError(
            f"of {replication} copies of a record {min_in_sync} can never be in sync; ask for {replication} at most"
        )
    wanted = [name(prefix, kind) for kind in Kind]
    shape = _Shape(partitions, replication, min_in_sync or (SAFE_IN_SYNC if replication >= SAFE_COPIES else 0))
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=connection.REQUEST_TIMEOUT_MS)
    await connection.start(admin, servers, TIMEOUT_S)
    try:
        with connection.kafka_at(servers), anyio.fail_after(TIMEOUT_S):
            existed = await _create(admin, [_topic(name(prefix, kind), kind, shape) for kind in Kind])
            found = await _usable(admin, wanted)
    finally:
        await connection.stop(admin)
    return [Created(topic, topic in existed, found[topic], partitions) for topic in wanted]


class _Shape(msgspec.Struct, frozen=True):
    """Without `min_in_sync` the brokers' own setting is in force."""

    partitions: int
    replication: int
    min_in_sync: int


def _topic(topic: str, kind: Kind, shape: _Shape) -> NewTopic:
    config = {**POLICY.get(kind, {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)})}
    if shape.min_in_sync:
        config["min.insync.replicas"] = str(shape.min_in_sync)
    return NewTopic(topic, shape.partitions, shape.replication, topic_configs=config)


async def _create(admin: AIOKafkaAdminClient, topics: Sequence[NewTopic]) -> set[str]:
    """Which of them were there before."""
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


async def _usable(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> Mapping[str, int]:
    """Partition counts, once every partition has a leader."""
    while True:
        found = {found["topic"]: found["partitions"] for found in await admin.describe_topics(list(topics))}
        if all(found.get(topic) and all(p["leader"] >= 0 for p in found[topic]) for topic in topics):
            return {topic: len(found[topic]) for topic in topics}
        await anyio.sleep(0.05)
