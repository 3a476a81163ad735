"""A Kafka consumer of assigned partitions, from positions that the caller keeps. It uses no consumer group."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import anyio
import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError
from aiokafka.errors import OffsetOutOfRangeError as KafkaOffsetOutOfRangeError

from tidegate.events import connection, offsets, undecodable
from tidegate.events.offsets import Stored
from tidegate.events.security import PLAINTEXT, client_options
from tidegate.schemas.error import TidegateError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity

# Above MAX_RECORD_BYTES: a record that is too large must be fetched to become a dead letter.
PARTITION_FETCH_BYTES = 3 << 20
# Bounds memory: one response covers all partitions.
FETCH_BYTES = 12 << 20
# New records end both waits early; the two only bound the cost of an idle source.
FETCH_WAIT_MS = 500
IDLE_WAKE_MS = 1000
COMMIT_EVERY_S = 10.0
COMMIT_TIMEOUT_S = 1.0

NO_LEADER = -1
"""In place of the id of a broker."""

_LAST_MS = 253_402_300_799_999

Batches = Mapping[TopicPartition, Sequence["ConsumerRecord[bytes, bytes]"]]


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Bounds(NamedTuple):
    """The range of a partition's log: `start` is the oldest offset, `end` the offset of the next record."""

    start: int
    end: int


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record. `timestamp` is aware, in UTC."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None
    headers: Sequence[tuple[str, bytes]]
    value: bytes | None


class OffsetOutOfRangeError(TidegateError):
    """The position is outside the log: records expired before they were read, or the topic was created again."""

    def __init__(self, partition: Partition, position: int, bounds: Bounds) -> None:
        super().__init__(
            f"{partition.topic}, partition {partition.partition}: the next offset is {position},"
            f" but the log holds {bounds.start} to {bounds.end}"
        )
        self.partition = partition
        self.position = position
        self.bounds = bounds


class UnreadableBatchError(UnavailableError):
    """The records from the position up to `next_offset` cannot be decoded, for example after a fault of the broker's disk."""

    def __init__(self, partition: Partition, position: int, bounds: Bounds, failure: undecodable.BatchError) -> None:
        place, last = f"{partition.topic}, partition {partition.partition}", failure.next_offset - 1
        super().__init__(f"{place}: the records from {position} to {last} cannot be decoded: {failure}")
        self.partition, self.position, self.bounds = partition, position, bounds
        self.next_offset = failure.next_offset


class Source:
    """Reads assigned partitions. An async context manager; usable again after UnavailableError."""

    def __init__(
        self, servers: str, *, security: KafkaSecurity = PLAINTEXT, group: str | None = None, timeout_s: float = 15.0
    ) -> None:
        """`group` names the offsets that `commit` stores, for lag tools; it has no members. `timeout_s` bounds each request."""
        self._servers = servers
        self._security = security
        self._timeout_s = timeout_s
        self._group = group
        self._positions: dict[Partition, int] = {}
        self._unreadable: set[Partition] = set()
        self._needs_seek = False
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
            # Kafka answers the requests of a connection in order: behind a fetch that waits, others would wait too.
            self._metadata_consumer = await self._started(stack)
            self._clients = stack.pop_all()
        return self

    async def _started(self, stack: AsyncExitStack, **options: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            enable_auto_commit=False,
            isolation_level="read_committed",
            request_timeout_ms=connection.REQUEST_TIMEOUT_MS,
            **client_options(self._security),
            **options,
        )
        await connection.start(consumer, self._servers, self._timeout_s, self._security)
        stack.push_async_callback(connection.stop, consumer)
        return consumer

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._clients.aclose()

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its offset."""
        self._positions = dict(positions)
        self._unreadable.clear()
        self._consumer.assign([TopicPartition(*partition) for partition in positions])
        self._seek()

    def _seek(self) -> None:
        for partition in self._positions.keys() - self._unreadable:
            self._consumer.seek(TopicPartition(*partition), self._positions[partition])
        self._needs_seek = False

    async def fetch(self, timeout_s: float, max_records: int) -> Mapping[Partition, Sequence[Record]]:
        """Up to `max_records` new records, as soon as there are any; empty after `timeout_s`. A cancelled call loses no record.

        Raises OffsetOutOfRangeError or UnreadableBatchError once for each partition that cannot be read, and the others continue;
        UnavailableError.
        """
        if self._needs_seek:
            self._seek()
        self._needs_seek = True  # until the records are returned: a failed call may have moved the client's position
        with connection.translated_errors(self._servers):
            batches = await self._getmany(anyio.current_time() + timeout_s, max_records)
        return {
            partition: records for tp, batch in batches.items() if (records := self._advance(partition := Partition(*tp), batch))
        }

    async def _getmany(
        self, deadline: float, max_records: int
    ) -> Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]]:
        while True:
            remaining_ms = int(max(0.0, deadline - anyio.current_time()) * 1000)
            try:
                batches: Batches = await self._consumer.getmany(timeout_ms=remaining_ms, max_records=max_records)
            except KafkaOffsetOutOfRangeError as error:
                await self._raise_out_of_range(error.args[0])
            except undecodable.FAILURES:
                return await self._get_undecodable(max_records)
            else:
                self._needs_seek = False
                return batches

    async def _get_undecodable(self, max_records: int) -> Batches:
        """As `getmany`, in random order: the records of one partition may fill each batch."""
        batches: dict[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]] = {}
        client, positions = self._consumer._client, list(self.positions().items())
        for partition, offset in random.sample(positions, len(positions)):
            tp, left = TopicPartition(*partition), max_records - sum(map(len, batches.values()))
            if left:
                try:
                    batches[tp] = await undecodable.fetch(client, tp, offset, max_bytes=PARTITION_FETCH_BYTES, max_records=left)
                except undecodable.BatchError as failure:
                    raise UnreadableBatchError(partition, offset, await self._leave_out(partition), failure) from failure
        return batches

    def _advance(self, partition: Partition, batch: Iterable[ConsumerRecord[bytes, bytes]]) -> Sequence[Record]:
        position = self._positions.get(partition)
        if position is None:
            return ()
        records = [_record(record) for record in batch if record.offset >= position]
        if records:
            self._positions[partition] = records[-1].offset + 1
        return records

    async def _raise_out_of_range(self, refused: Mapping[TopicPartition, int]) -> None:
        for tp, offset in refused.items():
            partition = Partition(*tp)
            if self._positions.get(partition) != offset or partition in self._unreadable:
                continue  # raised before, or for a former assignment
            raise OffsetOutOfRangeError(partition, offset, await self._leave_out(partition))

    async def _leave_out(self, partition: Partition) -> Bounds:
        """Read the partition no more; returns the range of its log."""
        bounds = (await self.bounds([partition]))[partition]
        self._consumer.pause(TopicPartition(*partition))
        self._unreadable.add(partition)
        return bounds

    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each assigned partition that can be read."""
        return {partition: offset for partition, offset in self._positions.items() if partition not in self._unreadable}

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """The current ranges of the logs. Raises UnavailableError, also for a partition that does not exist."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        with connection.translated_errors(self._servers), anyio.fail_after(self._timeout_s):
            starts = await self._metadata_consumer.beginning_offsets(wanted)
            ends = await self._metadata_consumer.end_offsets(wanted)
        return {Partition(*tp): Bounds(starts[tp], ends[tp]) for tp in wanted}

    async def lag(self) -> Mapping[Partition, int]:
        """The distance in offsets from each position to the end of its log; 0 if only transaction markers are left.

        Without the `leaderless` partitions: Kafka tells the end of no other one before these have a leader.
        """
        positions = {partition: offset for partition, offset in self.positions().items() if partition not in self.leaderless()}
        with connection.translated_errors(self._servers), anyio.fail_after(self._timeout_s):
            ends = await self._metadata_consumer.end_offsets([TopicPartition(*partition) for partition in positions])
            reached = {tp: await self._consumer.position(tp) for tp in ends}
        return {Partition(*tp): max(0, end - max(reached[tp], positions[Partition(*tp)])) for tp, end in ends.items()}

    def known_lag(self, handled: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """As `lag`, without a request: by the ends that the last fetches told. `handled` are the offsets that are done with."""
        lags = {}
        for partition, offset in handled.items():
            fetched = self._consumer._subscription.subscription.assignment.state_value(TopicPartition(*partition))
            if fetched is not None and fetched.highwater is not None:
                reached = fetched._position if self._positions.get(partition) == offset else offset
                lags[partition] = max(0, fetched.highwater - max(offset, reached or 0))
        return lags

    def leaderless(self) -> frozenset[Partition]:
        """The assigned partitions that had no leader when the client last asked, which it does all the time for these."""
        leader_of = self._consumer._client.cluster.leader_for_partition
        return frozenset(partition for partition in self._positions if leader_of(TopicPartition(*partition)) == NO_LEADER)

    async def offsets_at(self, partitions: Collection[Partition], time: datetime) -> Mapping[Partition, int]:
        """The offset of the first record at this time or later, of each partition with such a record. Raises as `bounds`."""
        times = {TopicPartition(*partition): int(time.timestamp() * 1000) for partition in partitions}
        with connection.translated_errors(self._servers), anyio.fail_after(self._timeout_s):
            found = await self._metadata_consumer.offsets_for_times(times)
        return {Partition(*tp): first.offset for tp, first in found.items() if first is not None}

    async def has_leader(self, topic: str) -> Mapping[int, bool]:
        """Whether each partition of a topic, by number, has a leader: without one it has no bounds and no records.

        Empty for an unknown topic. Raises UnavailableError, also for a topic that the user may not describe.
        """
        client = self._metadata_consumer._client
        with connection.translated_errors(self._servers), anyio.fail_after(self._timeout_s):
            found = leaders(await client.fetch_all_metadata(), topic)
            if not found:
                await connection.refuse_hidden(client, topic)
        return found

    async def commit(self, positions: Mapping[Partition, int], note: str = "", *, every_s: float = COMMIT_EVERY_S) -> None:
        """Store positions for lag tools, at most once in `every_s`, with a note. Advisory: failures are ignored."""
        now = anyio.current_time()
        if self._group is None or not positions or now < self._committed_at + every_s:
            return
        self._committed_at = now
        with anyio.move_on_after(COMMIT_TIMEOUT_S), suppress(KafkaError):
            offsets_of = {TopicPartition(*partition): offset for partition, offset in positions.items()}
            await offsets.commit(self._metadata_consumer._client, self._group, offsets_of, note)

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Stored]:
        """The positions last stored by `commit` under this group's name, with their notes. Raises UnavailableError."""
        if self._group is None:
            return {}
        wanted = [TopicPartition(*partition) for partition in partitions]
        with connection.translated_errors(self._servers), anyio.fail_after(self._timeout_s):
            known = await offsets.committed(self._metadata_consumer._client, self._group, wanted)
        return {Partition(*tp): stored for tp, stored in known.items()}


def leaders(metadata: ClusterMetadata, topic: str) -> Mapping[int, bool]:
    """Whether each partition of a topic, by number, has a leader."""
    led = metadata.available_partitions_for_topic(topic) or ()
    return {number: number in led for number in metadata.partitions_for_topic(topic) or ()}


def _record(record: "ConsumerRecord[bytes, bytes]") -> Record:
    written_ms = record.timestamp
    if not 0 <= written_ms <= _LAST_MS:  # producers choose timestamps
        written_ms = min(max(written_ms, 0), _LAST_MS)
    return Record(
        record.topic,
        record.partition,
        record.offset,
        datetime.fromtimestamp(written_ms / 1000, UTC),
        record.key,
        _without_null(record.headers),
        record.value,
    )


def _without_null(headers: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, bytes]]:
    """Headers with empty values in place of null ones. Most records have none, and their headers are not copied."""
    for _, value in headers:
        if value is None:
            return tuple((name, value or b"") for name, value in headers)
    return headers
