"""Records from Kafka, from positions that somebody else keeps.

There is no consumer group: the caller says which partitions to read and from where, and remembers how far it came.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import anyio
import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.errors import OffsetOutOfRangeError as KafkaOffsetOutOfRangeError

from tidegate.events import connection, offsets
from tidegate.schemas.error import TidegateError

# One record may be larger than we accept, and must be seen nevertheless to be put aside.
PARTITION_FETCH_BYTES = 3 << 20
# Bounds memory: a fetch answers for all partitions at once.
FETCH_BYTES = 12 << 20
# Arriving records end the wait; these two only decide what an idle source costs.
FETCH_WAIT_MS = 500
IDLE_WAKE_MS = 1000
COMMIT_EVERY_S = 10.0
COMMIT_TIMEOUT_S = 1.0

_LAST_MS = 253_402_300_799_999

Batches = Mapping[TopicPartition, Sequence["ConsumerRecord[bytes, bytes]"]]


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Bounds(NamedTuple):
    """The offsets a partition holds: `start` is the oldest one, `end` the one that the next record will get."""

    start: int
    end: int


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. `timestamp` is aware, in UTC."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    headers: Sequence[tuple[str, bytes]]
    value: bytes | None


class OffsetOutOfRangeError(TidegateError):
    """The position does not lie in the log: records expired unread, or the topic is not the one it was."""

    def __init__(self, partition: Partition, position: int, bounds: Bounds) -> None:
        super().__init__(
            f"{partition.topic}, partition {partition.partition}: to be read from offset {position},"
            f" but the log holds {bounds.start} to {bounds.end}"
        )
        self.partition = partition
        self.position = position
        self.bounds = bounds


class Source:
    """Reads assigned partitions. An async context manager; after UnavailableError go on or build a new one, as you like."""

    def __init__(self, servers: str, *, group: str | None = None, timeout_s: float = 15.0) -> None:
        """`group` is only a name: lag tools find the offsets given to `commit` under it."""
        self._servers = servers
        self._timeout_s = timeout_s
        self._group = group
        self._positions: dict[Partition, int] = {}
        self._halted: set[Partition] = set()
        self._astray = False
        self._committed_at = -COMMIT_EVERY_S

    async def __aenter__(self) -> Self:
        """Raises UnavailableError when Kafka does not answer."""
        async with AsyncExitStack() as stack:
            self._consumer = await self._started(
                stack,
                auto_offset_reset="none",
                fetch_min_bytes=1,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                fetch_max_bytes=FETCH_BYTES,
                max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
                consumer_timeout_ms=IDLE_WAKE_MS,
                check_crcs=True,
            )
            # Kafka answers a connection in turn: a question asked beside a waiting fetch would wait as well.
            self._asker = await self._started(stack)
            self._clients = stack.pop_all()
        return self

    async def _started(self, stack: AsyncExitStack, **options: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            enable_auto_commit=False,
            isolation_level="read_committed",
            request_timeout_ms=connection.REQUEST_TIMEOUT_MS,
            **options,
        )
        await connection.start(consumer, self._servers, self._timeout_s)
        stack.push_async_callback(connection.stop, consumer)
        return consumer

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._clients.aclose()

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from now on, each from its offset."""
        self._positions = dict(positions)
        self._halted.clear()
        self._consumer.assign([TopicPartition(*partition) for partition in positions])
        self._seek()

    def _seek(self) -> None:
        for partition in self._positions.keys() - self._halted:
            self._consumer.seek(TopicPartition(*partition), self._positions[partition])
        self._astray = False

    async def fetch(self, timeout_s: float, max_records: int) -> Mapping[Partition, Sequence[Record]]:
        """What has arrived, at once if there is anything, else nothing after `timeout_s`. May be cancelled: nothing is lost.

        Raises OffsetOutOfRangeError once for a partition that cannot be read, the others go on; UnavailableError.
        """
        if self._astray:
            self._seek()
        self._astray = True  # until we return: the client may have moved on with records nobody got
        with connection.kafka_at(self._servers):
            batches = await self._getmany(anyio.current_time() + timeout_s, max_records)
        self._astray = False
        return {
            partition: records for tp, batch in batches.items() if (records := self._take(partition := Partition(*tp), batch))
        }

    async def _getmany(
        self, deadline: float, max_records: int
    ) -> Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]]:
        while True:
            left_ms = int(max(0.0, deadline - anyio.current_time()) * 1000)
            try:
                batches: Batches = await self._consumer.getmany(timeout_ms=left_ms, max_records=max_records)
            except KafkaOffsetOutOfRangeError as error:
                await self._out_of_range(error.args[0])
            else:
                return batches

    def _take(self, partition: Partition, batch: Iterable[ConsumerRecord[bytes, bytes]]) -> Sequence[Record]:
        position = self._positions.get(partition)
        if position is None:
            return ()
        records = [_record(record) for record in batch if record.offset >= position]
        if records:
            self._positions[partition] = records[-1].offset + 1
        return records

    async def _out_of_range(self, refused: Mapping[TopicPartition, int]) -> None:
        for tp, offset in refused.items():
            partition = Partition(*tp)
            if self._positions.get(partition) != offset or partition in self._halted:
                continue  # said before, or of an assignment that is over
            bounds = (await self.bounds([partition]))[partition]
            self._consumer.pause(tp)
            self._halted.add(partition)
            raise OffsetOutOfRangeError(partition, offset, bounds)

    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each assigned partition that can be read."""
        return {partition: offset for partition, offset in self._positions.items() if partition not in self._halted}

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """Where the logs begin and end now. Raises UnavailableError, also for a partition that does not exist."""
        asked = [TopicPartition(*partition) for partition in partitions]
        with connection.kafka_at(self._servers), anyio.fail_after(self._timeout_s):
            starts = await self._asker.beginning_offsets(asked)
            ends = await self._asker.end_offsets(asked)
        return {Partition(*tp): Bounds(starts[tp], ends[tp]) for tp in asked}

    async def lag(self) -> Mapping[Partition, int]:
        """How many offsets lie between each position and the end of its log; 0 where only markers are left."""
        positions = self.positions()
        with connection.kafka_at(self._servers), anyio.fail_after(self._timeout_s):
            ends = await self._asker.end_offsets([TopicPartition(*partition) for partition in positions])
            reached = {tp: await self._consumer.position(tp) for tp in ends}
        return {Partition(*tp): max(0, end - max(reached[tp], positions[Partition(*tp)])) for tp, end in ends.items()}

    async def partitions_of(self, topic: str) -> frozenset[int]:
        """The partitions a topic has now; none when there is no such topic. Raises UnavailableError."""
        with connection.kafka_at(self._servers), anyio.fail_after(self._timeout_s):
            metadata = await self._asker._client.fetch_all_metadata()
        return frozenset(metadata.partitions_for_topic(topic) or ())

    async def commit(self, positions: Mapping[Partition, int], *, every_s: float = COMMIT_EVERY_S) -> None:
        """Tell lag tools how far we came, not more often than `every_s`. Nothing depends on it, so a failure is ignored."""
        now = anyio.current_time()
        if self._group is None or not positions or now < self._committed_at + every_s:
            return
        self._committed_at = now
        with anyio.move_on_after(COMMIT_TIMEOUT_S), suppress(KafkaError):
            offsets_of = {TopicPartition(*partition): offset for partition, offset in positions.items()}
            await offsets.commit(self._asker._client, self._group, offsets_of)

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """What `commit` was last told under this group's name, where it was. Raises UnavailableError."""
        if self._group is None:
            return {}
        asked = [TopicPartition(*partition) for partition in partitions]
        with connection.kafka_at(self._servers), anyio.fail_after(self._timeout_s):
            known = await offsets.committed(self._asker._client, self._group, asked)
        return {Partition(*tp): offset for tp, offset in known.items()}


def _record(record: "ConsumerRecord[bytes, bytes]") -> Record:
    return Record(
        record.topic,
        record.partition,
        record.offset,
        # Producers write timestamps, so they can be anything.
        datetime.fromtimestamp(min(max(record.timestamp, 0), _LAST_MS) / 1000, UTC),
        record.key,
        record.headers,
        record.value,
    )
