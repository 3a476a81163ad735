"""A sink for rows of many partitions: one that does not answer delays no other.

A partition without a leader, or with too few replicas in sync, acknowledges nothing. It rests: what was sent to it stays on its
way, and no newer record is sent to it before that is acknowledged or given up. So does a topic that does not exist.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import anyio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced, TopicAuthorizationFailedError, UnknownTopicOrPartitionError

from tidegate.events import connection
from tidegate.events.security import PLAINTEXT
from tidegate.events.sink import ProducerRecord, Sink, fill_batches
from tidegate.events.source import NO_LEADER, Partition
from tidegate.schemas.error import FencedError
from tidegate.schemas.kafka_security import KafkaSecurity

PATIENCE_S = 1.0
"""How long other records wait for the acknowledgement of a partition that has answered so far."""

REST_S = 2.0
"""After this time, a partition that was given up is tried again."""

MISSING = -1
"""Stands for all partitions of a topic that does not exist, or that the user of Kafka may not write to."""

LEADERLESS = "the partition has no leader: its outgoing events wait until a broker with a replica of it is back"

UNACKNOWLEDGED = "the partition acknowledges no outgoing event: it may have too few replicas in sync"


class RestingPartitions:
    """The partitions to which nothing is sent for now. `now` is of any monotonic clock.

    `silent`: why, by partition that was given up, was tried again, and has acknowledged nothing since.
    """

    def __init__(self) -> None:
        self.silent: dict[Partition, str] = {}
        self._given_up: dict[Partition, str] = {}
        self._deadlines: dict[Partition, float] = {}
        self._rests: dict[Partition, float] = {}

    def __contains__(self, partition: object) -> bool:
        return partition in self._deadlines or partition in self._rests

    def all(self) -> Set[Partition]:
        return self._deadlines.keys() | self._rests.keys()

    def await_answer(self, partition: Partition, deadline: float) -> None:
        """A batch is on its way for a while, and is given up at the deadline."""
        self._deadlines[partition] = deadline
        if partition in self._given_up:
            self.silent[partition] = self._given_up[partition]

    def overdue(self, now: float) -> Sequence[Partition]:
        """The partitions whose batch is to be given up."""
        return [partition for partition, deadline in self._deadlines.items() if deadline <= now]

    def answered(self, partition: Partition) -> None:
        """It has acknowledged a batch."""
        for found in (self._deadlines, self._given_up, self.silent):
            found.pop(partition, None)

    def give_up(self, partition: Partition, reason: str, now: float) -> None:
        """Let it rest, and try again later."""
        if partition in self._given_up:
            self.silent[partition] = reason
        self._deadlines.pop(partition, None)
        self._rests[partition] = now + REST_S
        self._given_up[partition] = reason

    def end_rests(self, now: float) -> None:
        """Partitions that have rested long enough may be tried again."""
        self._rests = {partition: until for partition, until in self._rests.items() if until > now}

    def forget_batches(self) -> None:
        """The producer was closed: nothing is on its way any more."""
        self._deadlines.clear()


class AcknowledgedLate:
    """Records that were acknowledged after the caller was told that they are on their way. It will ask for them again."""

    def __init__(self) -> None:
        self._records: defaultdict[Partition, list[ProducerRecord]] = defaultdict(list)

    def add(self, partition: Partition, records: Sequence[ProducerRecord]) -> None:
        self._records[partition] += records

    def count(self, partition: Partition, records: Sequence[ProducerRecord]) -> int:
        """How many of these, from the first on, need not be sent again.

        A record that follows one that is sent is sent, too: otherwise the older one would be the last in the partition.
        """
        known = self._records.pop(partition, [])
        found = sum(1 for _ in takewhile(known.__contains__, records))
        if known and found == len(records):
            self._records[partition] = known
        return found


class _Batch(NamedTuple):
    """A batch on its way. `indexes` are those of its records in the call that sent it."""

    future: "asyncio.Future[Any]"
    indexes: Sequence[int]
    records: Sequence[ProducerRecord]


class OutboxSink(Sink):
    """A sink for one caller, which asks again for what was not acknowledged, oldest first. Connects in `connect` only.

    `resting` gets more partitions in `send_available`, and fewer in `settle` and when the producer is closed.
    """

    def __init__(
        self,
        servers: str,
        *,
        security: KafkaSecurity = PLAINTEXT,
        delivery_timeout_s: float = 10.0,
        transactional_id: str,
    ) -> None:
        super().__init__(servers, security=security, delivery_timeout_s=delivery_timeout_s, transactional_id=transactional_id)
        self.resting = RestingPartitions()
        self._late = AcknowledgedLate()
        self._batches: dict[Partition, _Batch] = {}

    async def settle(self) -> None:
        """See what was acknowledged meanwhile, give up what was not in time, and end rests. Raises FencedError."""
        now = anyio.current_time()
        self.resting.end_rests(now)
        overdue = self.resting.overdue(now)
        ended = [(partition, batch) for partition, batch in self._batches.items() if batch.future.done() or partition in overdue]
        try:
            arrived = [self._settle(partition, batch) for partition, batch in ended]
        except FencedError:
            await self._discard_producer()
            raise
        if not all(arrived):
            await self._discard_producer()

    def _settle(self, partition: Partition, batch: _Batch) -> bool:
        if arrived := self._end(partition, batch):
            self._late.add(partition, batch.records)
        return arrived

    async def send_available(self, records: Sequence[ProducerRecord]) -> Sequence[Partition | None]:
        """Send the records of partitions that do not rest, and wait for a moment. None for each that is acknowledged.

        The others have their partition in its place: ask for them again, oldest first, once it does not rest.
        Raises UnavailableError, and FencedError when another sink has connected with the transactional id.
        """
        async with self._lock:
            try:
                with connection.translated_errors(self._servers):
                    return await self._send(records)
            except BaseException:
                await self._discard_producer()
                raise

    async def _send(self, records: Sequence[ProducerRecord]) -> Sequence[Partition | None]:
        producer = await self._connected()
        places = await self._places(producer, records)
        partitions = {place: Partition(*place) for place in set(places)}
        waits: list[Partition | None] = [partitions[place] for place in places]
        unsent = take_unsent(records, waits, partial(self._may_send, producer), self._late)
        while unsent:
            batches, unsent = await _send_batches(producer, records, unsent, places)
            if awaited := [batch.future for partition, batch in batches.items() if partition not in self.resting.silent]:
                await asyncio.wait(awaited, timeout=PATIENCE_S)
            if not self._take_answers(batches, waits):
                await self._discard_producer()
                break
            unsent = [index for index in unsent if waits[index] not in self.resting]
        return waits

    async def _places(self, producer: AIOKafkaProducer, records: Sequence[ProducerRecord]) -> Sequence[TopicPartition]:
        """The partition of each record; MISSING while the topic is missing, or rests since."""
        missing = {topic for topic in {record.topic for record in records} if not await self._exists(producer, topic)}
        if not missing:
            return await super()._places(producer, records)
        known = iter(await super()._places(producer, [record for record in records if record.topic not in missing]))
        return [TopicPartition(record.topic, MISSING) if record.topic in missing else next(known) for record in records]

    async def _exists(self, producer: AIOKafkaProducer, topic: str) -> bool:
        place = Partition(topic, MISSING)
        if place not in self.resting:
            error = await self._lack(producer, topic)
            if error is None:
                self.resting.answered(place)
            else:
                self.resting.give_up(place, connection.describe(self._servers, error), anyio.current_time())
        return place not in self.resting

    async def _lack(self, producer: AIOKafkaProducer, topic: str) -> Exception | None:
        """Why Kafka names no partitions of a topic; None if it does, and if it does not answer."""
        client = producer.client
        if client.cluster.partitions_for_topic(topic) is not None:
            return None
        client.add_topic(topic)
        with anyio.move_on_after(self._delivery_timeout_s / 2):
            if await client.force_metadata_update() and client.cluster.partitions_for_topic(topic) is None:
                is_refused = topic in client.cluster.unauthorized_topics
                error: Exception = TopicAuthorizationFailedError(topic) if is_refused else UnknownTopicOrPartitionError(topic)
                return error
        return None

    def _may_send(self, producer: AIOKafkaProducer, partition: Partition) -> bool:
        if partition not in self.resting and partition in self.resting.silent and not _has_leader(producer, partition):
            self.resting.give_up(partition, LEADERLESS, anyio.current_time())
            producer.client.force_metadata_update()  # for the next try
        return partition not in self.resting

    def _take_answers(self, batches: Mapping[Partition, _Batch], waits: list[Partition | None]) -> bool:
        """Note what was acknowledged and what is on its way. False if a batch was refused."""
        deadline = anyio.current_time() + self._delivery_timeout_s
        is_well = True
        for partition, batch in batches.items():
            if not batch.future.done():
                self._batches[partition] = batch
                self.resting.await_answer(partition, deadline)
            elif self._end(partition, batch):
                for index in batch.indexes:
                    waits[index] = None
            else:
                is_well = False
        return is_well

    def _end(self, partition: Partition, batch: _Batch) -> bool:
        """Whether the batch was acknowledged. Its partition rests otherwise, and the producer has to be closed."""
        self._batches.pop(partition, None)
        reason = self._refusal(partition, batch.future)
        if reason is None:
            self.resting.answered(partition)
        else:
            self.resting.give_up(partition, reason, anyio.current_time())
        return reason is None

    def _refusal(self, partition: Partition, future: "asyncio.Future[Any]") -> str | None:
        error = future.exception() if future.done() else None
        if future.done() and error is None:
            return None
        if isinstance(error, ProducerFenced):
            raise FencedError(f"another producer writes as {self._transactional_id}") from error
        if self._producer is not None and not _has_leader(self._producer, partition):
            return LEADERLESS
        return connection.describe(self._servers, error) if error is not None else UNACKNOWLEDGED

    async def _discard_producer(self) -> None:
        self._batches.clear()
        self.resting.forget_batches()
        await super()._discard_producer()


def take_unsent(
    records: Sequence[ProducerRecord],
    waits: list[Partition | None],
    may_send: Callable[[Partition], bool],
    late: AcknowledgedLate,
) -> Sequence[int]:
    """The indexes of the records to send, those of a partition in order. Those acknowledged late wait no more."""
    unsent: list[int] = []
    for partition, indexes in _by_partition(waits).items():
        if may_send(partition):
            arrived = late.count(partition, [records[index] for index in indexes])
            for index in indexes[:arrived]:
                waits[index] = None
            unsent += indexes[arrived:]
    return unsent


async def _send_batches(
    producer: AIOKafkaProducer, records: Sequence[ProducerRecord], unsent: Sequence[int], places: Sequence[TopicPartition]
) -> tuple[Mapping[Partition, _Batch], Sequence[int]]:
    """One batch for each partition, and the indexes of the records that did not fit."""
    filled, overflow = fill_batches(producer, records, unsent, places)
    batches: dict[Partition, _Batch] = {}
    for tp, (builder, indexes) in filled.items():
        future = await producer.send_batch(builder, tp.topic, partition=tp.partition)
        future.add_done_callback(_retrieve)
        batches[Partition(*tp)] = _Batch(future, indexes, [records[index] for index in indexes])
    return batches, overflow


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a batch that was forgotten, which asyncio would log."""
    if not future.cancelled():
        future.exception()


def _by_partition(places: Sequence[Partition | None]) -> Mapping[Partition, list[int]]:
    found: defaultdict[Partition, list[int]] = defaultdict(list)
    for index, place in enumerate(places):
        if place is not None:
            found[place].append(index)
    return found


def _has_leader(producer: AIOKafkaProducer, partition: Partition) -> bool:
    return producer.client.cluster.leader_for_partition(TopicPartition(*partition)) not in {None, NO_LEADER}
