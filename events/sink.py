"""An idempotent Kafka producer: each record is acknowledged by all in-sync replicas, in the order given.

A sink with a transactional id fences its predecessors. It writes no transactions: each initialisation of the id gets a higher
producer epoch, and a partition refuses records of a lower epoch than it has seen. A request that arrives late, from a process
that was frozen or over a connection that stalled, is then refused instead of appended after newer records.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, count, islice
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerClosed, ProducerFenced
from aiokafka.partitioner import murmur2

from tidegate.events import connection
from tidegate.events.security import OPEN, client_options
from tidegate.schemas.error import FencedError, RejectedError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Rejection

# Below the default max.message.bytes of topics, with room for the overhead of a record batch.
MAX_MESSAGE_BYTES = MAX_RECORD_BYTES - 1024
BATCH_BYTES = 256 * 1024
DISCARD_TIMEOUT_S = 1.0


class OutMessage(msgspec.Struct, frozen=True):
    """A record to send. Messages with the same key keep their order; one without a key goes to any partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class UndeliveredError(UnavailableError):
    """Some messages were not acknowledged. `acknowledged` has one flag per message, in order.

    False means unknown: the message may have arrived. Send it again; receivers drop duplicates by event id or `seq`.
    """

    def __init__(self, message: str, acknowledged: Sequence[bool]) -> None:
        super().__init__(message)
        self.acknowledged = acknowledged


class _SendCall:
    """The messages of one `send_all`, and their outcome once `done`."""

    def __init__(self, messages: Sequence[OutMessage]) -> None:
        self.messages = messages
        self.acknowledged = [False] * len(messages)
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
        security: KafkaSecurity = OPEN,
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
        """Connect before the first message; required with a transactional id only. Fences the earlier sinks of the id.

        Raises UnavailableError when Kafka does not answer.
        """
        async with self._lock:
            await self._connect()

    async def send_all(self, messages: Sequence[OutMessage]) -> Sequence[bool]:
        """Return when all messages are acknowledged; messages with the same key arrive in the order given.

        Raises UndeliveredError, an UnavailableError, after `delivery_timeout_s`; FencedError when another sink has connected
        with the transactional id; and RejectedError, before sending, for a message that exceeds MAX_MESSAGE_BYTES.
        """
        for message in messages:
            _check_size(message)
        call = _SendCall(messages)
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
        """Send the messages of all waiting calls."""
        calls, self._waiting_calls = self._waiting_calls, []
        messages = [message for call in calls for message in call.messages]
        acknowledged = [False] * len(messages)
        problem = None
        try:
            with connection.translated_errors(self._servers), anyio.fail_after(self._delivery_timeout_s) as self._flushing:
                await self._deliver(messages, acknowledged)
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
            call.acknowledged = list(islice(answers, len(call.messages)))
            call.problem = None if all(call.acknowledged) else problem
            call.done = True

    async def _deliver(self, messages: Sequence[OutMessage], acknowledged: list[bool]) -> None:
        """Send all messages and flag the acknowledged ones. After a failure its partition receives no further message."""
        producer = await self._connected()
        partitions = {topic: await self._partitions(producer, topic) for topic in {m.topic for m in messages}}
        unsent: Sequence[int] = range(len(messages))
        while unsent:
            batches, unsent = _fill_batches(producer, messages, unsent, partitions)
            futures = []
            for (topic, partition), (builder, indexes) in batches.items():
                future = await producer.send_batch(builder, topic, partition=partition)
                future.add_done_callback(partial(_mark_acknowledged, acknowledged, indexes))
                futures.append(future)
            try:
                await _wait_for_all(futures)
            except ProducerFenced as error:
                raise FencedError(f"another producer writes as {self._transactional_id}") from error

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
        client, sender = producer._txn_manager, producer._sender.sender_task
        try:
            with connection.translated_errors(self._servers), anyio.fail_after(self._delivery_timeout_s):
                await asyncio.wait([client._pid_waiter, sender], return_when=asyncio.FIRST_COMPLETED)
                if sender.done():
                    sender.result()
        except BaseException:
            await connection.stop(producer)
            raise
        client.transactional_id = None

    async def _discard_producer(self) -> None:
        """Close without sending what is queued: a message of a failed call must not arrive after its repetition."""
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


Partition = tuple[str, int]


def _fill_batches(
    producer: AIOKafkaProducer, messages: Sequence[OutMessage], unsent: Sequence[int], partitions: Mapping[str, int]
) -> tuple[Mapping[Partition, tuple[Any, list[int]]], Sequence[int]]:
    """One batch for each partition, filled in order, and the indexes of the messages that did not fit."""
    batches: dict[Partition, tuple[Any, list[int]]] = {}
    overflow: list[int] = []
    for index in unsent:
        message = messages[index]
        partition = (message.topic, _partition_of(message.key, partitions[message.topic]))
        if partition not in batches:
            batches[partition] = (producer.create_batch(), [])
        builder, indexes = batches[partition]
        # A full batch refuses every further message, also one that would fit, so the order is kept.
        appended = builder.append(timestamp=None, key=message.key, value=message.value, headers=list(message.headers))
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


_keyless = count()


def _partition_of(key: bytes | None, partitions: int) -> int:
    """The default partitioner of Kafka's Java client."""
    return (next(_keyless) if key is None else _hash(key)) % partitions


@lru_cache(maxsize=65536)
def _hash(key: bytes) -> int:
    return int(murmur2(key)) & 0x7FFFFFFF


def message_bytes(message: OutMessage) -> int:
    """The size that `MAX_MESSAGE_BYTES` bounds: value, key and headers."""
    return len(message.value or b"") + len(message.key or b"") + sum(len(name) + len(value) for name, value in message.headers)


def _check_size(message: OutMessage) -> None:
    if (size := message_bytes(message)) > MAX_MESSAGE_BYTES:
        raise RejectedError(
            Rejection.TOO_LARGE, f"a message of {size} bytes for {message.topic}; at most {MAX_MESSAGE_BYTES} are possible"
        )
