"""States of runs and tasks, published as the relay of a daemon does it."""

from datetime import UTC, datetime
from itertools import count

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from tidegate.events import DagRunStateChanged, Kind, TaskStateChanged, cloudevents, topics
from tidegate.events.partitioner import partition_of
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.schemas.wire.event import StateChanged, encode

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def run(seq: int, run_id: str = "r") -> StateChanged:
    return DagRunStateChanged(dag_id="d", run_id=run_id, seq=seq, state="running", run_type="manual", run_after=NOON, at=NOON)


def task(seq: int) -> StateChanged:
    return TaskStateChanged(dag_id="d", run_id="r", task_id="t", try_number=1, seq=seq, state="queued", at=NOON)


def run_of(name: str, partition: int, partitions: int) -> str:
    """A run whose states are in this partition."""
    runs = (f"{name}-{n}" for n in count())
    return next(each for each in runs if partition_of(topics.run_key("d", each).encode(), partitions) == partition)


def run_of_new_partition(partitions: int) -> str:
    """A run whose states are in a partition that a topic gets by `add_partitions`."""
    runs = (f"after-{n}" for n in count())
    return next(name for name in runs if partition_of(topics.run_key("d", name).encode(), 2 * partitions) >= partitions)


async def add_partitions(kafka: str, topic: str, partitions: int) -> None:
    """As many as the topic has."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_partitions({topic: NewPartitions(2 * partitions)})
    await admin.close()


class Relay:
    """Publishes moves as the daemon does."""

    def __init__(self, sink: Sink, prefix: str) -> None:
        self.sink = sink
        self.prefix = prefix

    async def send(self, *events: StateChanged) -> None:
        await self.sink.send_all([self._message(event) for event in events])

    def _message(self, event: StateChanged) -> ProducerRecord:
        kind = Kind.DAG_RUN_STATE if isinstance(event, DagRunStateChanged) else Kind.TASK_STATE
        key = topics.run_key(event.dag_id, event.run_id)
        headers = cloudevents.headers(kind, event_id=f"{key}/{event.seq}", source="tidegate", time=event.at)
        return ProducerRecord(topics.name(self.prefix, kind), key.encode(), encode(event), headers)
