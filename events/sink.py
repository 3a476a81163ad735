"""An idempotent Kafka producer: each record is acknowledged by all in-sync replicas, in the order given.

A sink with a transactional id fences its predecessors. It writes no transactions: each initialisation of the id gets a higher
producer epoch, and a partition refuses records of a lower epoch than it has seen. A request that arrives late, from a process
that was frozen or over a connection that stalled, is then refused instead of appended after newer records.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, islice
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerClosed, ProducerFenced

from tidegate.events import connection
from tidegate.events.partitioner import partition_of
from tidegate.events.security import PLAINTEXT, client_options
from tidegate.schemas.error import FencedError, RejectedError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Rejection

# Below the default max.message.bytes of topics, with room for the overhead of a record batch.
MAX_SENT_BYTES = MAX_RECORD_BYTES - 1024
BATCH_BYTES = 256 * 1024
DISCARD_TIMEOUT_S = 1.0


class ProducerRecord(msgspec.Struct, frozen=True):
    """A record to send. Records with the same key keep their order; one without a key goes to any partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class UndeliveredError(UnavailableError):
    """Some records were not acknowledged. `acknowledged` has one flag per record, in order.

    False means unknown: the record may have arrived. Send it again; receivers drop duplicates by event id or `seq`.
    """

    def __init__(self, reason: str, acknowledged: Sequence[bool]) -> None:
        super().__init__(reason)
        self.acknowledged = acknowledged


class _SendCall:
    """The records of one `send_all`, and their outcome once `done`."""

    def __init__(self, records: Sequence[ProducerRecord]) -> None:
        self.records = records
        self.acknowledged = [False] * len(records)
        self.problem: UnavailableError | None = None
        self.done = False


class Sink:
    """Connects on first use, and again after every failure. An async context manager.

    Calls that arrive while another one waits for Kafka are sent together, so that many small calls are as fast as one large one.

    A sink with a `transactional_id` connects in `connect` only. After a failure the caller connects and then decides again what
    to send: another process may have sent it meanwhile.
    """

    def __init__(
        self,
        servers: str,
        *,
        security: KafkaSecurity = PLAINTEXT,
        delivery_timeout_s: float = 10.0,
        transactional_id: str | None = None,
    ) -> None:
        self._servers = servers
        self._security = security
        self._delivery_timeout_s = delivery_timeout_s
        self._transactional_id = transactional_id
        self._producer: AIOKafkaProducer | None = None
        self._closed = False
        self._lock = anyio.Lock()
        self._flushing: anyio.CancelScope | None = None
        self._waiting_calls: list[_SendCall] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        return self._producer is not None

    async def close(self) -> None:
        """Close for good. Calls that wait for Kafka fail."""
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()  # calls that wait for Kafka fail now
        await self._discard_producer()
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._discard_producer()

    async def connect(self) -> None:
        """Connect before the first record; required with a transactional id only. Fences the earlier sinks of the id.

        Raises UnavailableError when Kafka does not answer.
        """
        async with self._lock:
            await self._connect()

    async def send_all(self, records: Sequence[ProducerRecord]) -> Sequence[bool]:
        """Return when all records are acknowledged; records with the same key arrive in the order given.

        Raises UndeliveredError, an UnavailableError, after `delivery_timeout_s`; FencedError when another sink has connected
        with the transactional id; and RejectedError, before sending, for a record that exceeds MAX_SENT_BYTES.
        """
        for record in records:
            _check_size(record)
        call = _SendCall(records)
        self._waiting_calls.append(call)
        try:
            async with self._lock:
                if not call.done:
                    await self._flush()
        finally:
            if call in self._waiting_calls:  # cancelled
                self._waiting_calls.remove(call)
        if call.problem is not None:
            raise UndeliveredError(str(call.problem), call.acknowledged) from call.problem
        return call.acknowledged

    async def _flush(self) -> None:
        """Send the records of all waiting calls."""
        calls, self._waiting_calls = self._waiting_calls, []
        records = [record for call in calls for record in call.records]
        acknowledged = [False] * len(records)
        problem = None
        try:
            with connection.translated_errors(self._servers), anyio.fail_after(self._delivery_timeout_s) as self._flushing:
                await self._deliver(records, acknowledged)
            if self._flushing.cancelled_caught:
                raise UnavailableError("the sink is closed")  # noqa: TRY301 - handled as any other failure
        except UnavailableError as error:
            problem = error
            await self._discard_producer()
        except BaseException:
            self._waiting_calls = calls + self._waiting_calls
            await self._discard_producer()
            raise
        answers = iter(acknowledged)
        for call in calls:
            call.acknowledged = list(islice(answers, len(call.records)))
            call.problem = None if all(call.acknowledged) else problem
            call.done = True

    async def _deliver(self, records: Sequence[ProducerRecord], acknowledged: list[bool]) -> None:
        """Send all records and flag the acknowledged ones. After a failure its partition receives no further record."""
        producer = await self._connected()
        places = await self._places(producer, records)
        unsent: Sequence[int] = range(len(records))
        while unsent:
            batches, unsent = fill_batches(producer, records, unsent, places)
            futures = []
            for tp, (builder, indexes) in batches.items():
                future = await producer.send_batch(builder, tp.topic, partition=tp.partition)
                future.add_done_callback(partial(_mark_acknowledged, acknowledged, indexes))
                futures.append(future)
            try:
                await _wait_for_all(futures)
            except ProducerFenced as error:
                raise FencedError(f"another producer writes as {self._transactional_id}") from error

    async def _places(self, producer: AIOKafkaProducer, records: Sequence[ProducerRecord]) -> Sequence[TopicPartition]:
        """The partition of each record."""
        counts = {topic: await self._partitions(producer, topic) for topic in {record.topic for record in records}}
        return [TopicPartition(record.topic, partition_of(record.key, counts[record.topic])) for record in records]

    async def _partitions(self, producer: AIOKafkaProducer, topic: str) -> int:
        with anyio.move_on_after(self._delivery_timeout_s / 2):
            return len(await producer.partitions_for(topic))
        raise UnavailableError(f"Kafka at {self._servers} has no topic {topic}; create it with `tidegate topics create`")

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None and self._transactional_id is not None:
            raise UnavailableError(f"the producer of {self._transactional_id} is not connected")
        return await self._connect()

    async def _connect(self) -> AIOKafkaProducer:
        if self._closed:
            raise UnavailableError("the sink is closed")
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._servers,
                enable_idempotence=True,
                transactional_id=self._transactional_id,
                acks="all",
                linger_ms=0,
                max_batch_size=BATCH_BYTES,
                request_timeout_ms=connection.REQUEST_TIMEOUT_MS,
                **client_options(self._security),
            )
            await connection.start(producer, self._servers, self._delivery_timeout_s, self._security)
            if self._transactional_id is not None:
                await self._take_epoch(producer)
            self._producer = producer
        return self._producer

    async def _take_epoch(self, producer: AIOKafkaProducer) -> None:
        """Wait for the epoch. The client then forgets the transactional id, so that it sends without transactions."""
        manager, sender = producer._txn_manager, producer._sender.sender_task
        try:
            with connection.translated_errors(self._servers), anyio.fail_after(self._delivery_timeout_s):
                await asyncio.wait([manager._pid_waiter, sender], return_when=asyncio.FIRST_COMPLETED)
                if sender.done():
                    sender.result()
        except BaseException:
            await connection.stop(producer)
            raise
        manager.transactional_id = None

    async def _discard_producer(self) -> None:
        """Close without sending what is queued: a record of a failed call must not arrive after its repetition."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # stop() alone first waits until the queue is sent, however long Kafka is away; the client cannot drop it otherwise.
            sender = producer._sender.sender_task
            if sender is not None:
                sender.cancel()
                # wait() instead of await: a task cancelled before its first step raises CancelledError here.
                with anyio.move_on_after(DISCARD_TIMEOUT_S, shield=True):
                    await asyncio.wait([sender])
            accumulator = producer._message_accumulator
            accumulator.fail_all(ProducerClosed())
            for batch in chain(*accumulator._batches.values(), accumulator._pending_batches):
                batch._drain_waiter.exception()  # otherwise asyncio logs an exception that was never retrieved
            await connection.stop(producer)


def fill_batches(
    producer: AIOKafkaProducer, records: Sequence[ProducerRecord], unsent: Sequence[int], places: Sequence[TopicPartition]
) -> tuple[Mapping[TopicPartition, tuple[Any, list[int]]], Sequence[int]]:
    """One batch for each partition, filled in order, and the indexes of the records that did not fit."""
    batches: dict[TopicPartition, tuple[Any, list[int]]] = {}
    overflow: list[int] = []
    for index in unsent:
        record, tp = records[index], places[index]
        if (batch := batches.get(tp)) is None:
            batch = batches[tp] = (producer.create_batch(), [])
        builder, indexes = batch
        # A full batch refuses every further record, also one that would fit, so the order is kept.
        appended = builder.append(timestamp=None, key=record.key, value=record.value, headers=list(record.headers))
        (overflow if appended is None else indexes).append(index)
    return batches, overflow


def _mark_acknowledged(acknowledged: list[bool], indexes: Sequence[int], future: "asyncio.Future[Any]") -> None:
    """A callback of the future: it also retrieves the exception of a cancelled call, which asyncio would log."""
    if not future.cancelled() and future.exception() is None:
        for index in indexes:
            acknowledged[index] = True


async def _wait_for_all(futures: Sequence["asyncio.Future[Any]"]) -> None:
    """Wait for all futures, then raise the first failure. Cancellation of the caller does not cancel them."""
    await asyncio.wait(futures)
    for future in futures:
        future.result()


def record_bytes(record: ProducerRecord) -> int:
    """The size that `MAX_SENT_BYTES` bounds: value, key and headers."""
    size = len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) + len(value)
    return size


def _check_size(record: ProducerRecord) -> None:
    if (size := record_bytes(record)) > MAX_SENT_BYTES:
        raise RejectedError(
            Rejection.TOO_LARGE, f"a record of {size} bytes for {record.topic}; at most {MAX_SENT_BYTES} are possible"
        )
