"""Records to Kafka, each acknowledged by all in-sync replicas, in the order given."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, count, islice
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerClosed
from aiokafka.partitioner import murmur2

from tidegate.events import connection
from tidegate.schemas.error import RejectedError, UnavailableError
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Rejection

# Less than what a topic takes unless told otherwise, with room for the frame that Kafka puts around a record.
MAX_MESSAGE_BYTES = MAX_RECORD_BYTES - 1024
BATCH_BYTES = 256 * 1024
ABANDON_S = 1.0


class OutMessage(msgspec.Struct, frozen=True):
    """One record to be. Messages with equal keys keep their order; without a key any partition will do."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


class UndeliveredError(UnavailableError):
    """Not all messages were acknowledged. `acknowledged` has one answer per message, in their order.

    False means unknown: such a message may have arrived. Send it again, receivers drop duplicates by event id and `seq`.
    """

    def __init__(self, message: str, acknowledged: Sequence[bool]) -> None:
        super().__init__(message)
        self.acknowledged = acknowledged


class _Parcel:
    """The messages of one call, and what became of them."""

    def __init__(self, messages: Sequence[OutMessage]) -> None:
        self.messages = messages
        self.acknowledged = [False] * len(messages)
        self.problem: UnavailableError | None = None
        self.done = False


class Sink:
    """An idempotent producer that connects when first used, and anew after any failure. An async context manager.

    Calls that come while another one waits for Kafka travel together, so that many small ones are as fast as one large.
    """

    def __init__(self, servers: str, *, delivery_timeout_s: float = 10.0) -> None:
        self._servers = servers
        self._delivery_timeout_s = delivery_timeout_s
        self._producer: AIOKafkaProducer | None = None
        self._closed = False
        self._turn = anyio.Lock()
        self._flushing: anyio.CancelScope | None = None
        self._waiting: list[_Parcel] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()  # whoever waits for Kafka is told now
        await self._abandon()
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await self._abandon()

    async def connect(self) -> None:
        """Raises UnavailableError when Kafka does not answer. Not needed before sending."""
        async with self._turn:
            await self._connected()

    async def send_all(self, messages: Sequence[OutMessage]) -> Sequence[bool]:
        """Return when all are acknowledged; messages of one key arrive in the order given.

        Raises UndeliveredError (an UnavailableError), RejectedError for a message larger than Kafka takes: then none was sent.
        """
        for message in messages:
            _check(message)
        parcel = _Parcel(messages)
        self._waiting.append(parcel)
        try:
            async with self._turn:
                if not parcel.done:
                    await self._flush()
        finally:
            if parcel in self._waiting:  # given up
                self._waiting.remove(parcel)
        if parcel.problem is not None:
            raise UndeliveredError(str(parcel.problem), parcel.acknowledged) from parcel.problem
        return parcel.acknowledged

    async def _flush(self) -> None:
        """Deliver whatever waits, for everybody."""
        parcels, self._waiting = self._waiting, []
        messages = [message for parcel in parcels for message in parcel.messages]
        acknowledged = [False] * len(messages)
        problem = None
        try:
            with connection.kafka_at(self._servers), anyio.fail_after(self._delivery_timeout_s) as self._flushing:
                await self._deliver(messages, acknowledged)
            if self._flushing.cancelled_caught:
                raise UnavailableError("the sink is closed")  # noqa: TRY301 - as any other reason to give up
        except UnavailableError as error:
            problem = error
            await self._abandon()
        except BaseException:
            self._waiting = parcels + self._waiting
            await self._abandon()
            raise
        answers = iter(acknowledged)
        for parcel in parcels:
            parcel.acknowledged = list(islice(answers, len(parcel.messages)))
            parcel.problem = None if all(parcel.acknowledged) else problem
            parcel.done = True

    async def _deliver(self, messages: Sequence[OutMessage], acknowledged: list[bool]) -> None:
        """Mark what is acknowledged. Raises what the client raises; nothing follows a failure in its partition."""
        producer = await self._connected()
        partitions = {topic: await self._partitions(producer, topic) for topic in {m.topic for m in messages}}
        left: Sequence[int] = range(len(messages))
        while left:
            batches, left = _pack(producer, messages, left, partitions)
            futures = []
            for (topic, partition), (builder, indexes) in batches.items():
                future = await producer.send_batch(builder, topic, partition=partition)
                future.add_done_callback(partial(_note, acknowledged, indexes))
                futures.append(future)
            await _all(futures)

    async def _partitions(self, producer: AIOKafkaProducer, topic: str) -> int:
        with anyio.move_on_after(self._delivery_timeout_s / 2):
            return len(await producer.partitions_for(topic))
        raise UnavailableError(f"Kafka at {self._servers} shows no topic {topic}; `tidegate topics create` makes it")

    async def _connected(self) -> AIOKafkaProducer:
        if self._closed:
            raise UnavailableError("the sink is closed")
        if self._producer is None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._servers,
                enable_idempotence=True,
                acks="all",
                linger_ms=0,
                max_batch_size=BATCH_BYTES,
                request_timeout_ms=connection.REQUEST_TIMEOUT_MS,
            )
            await connection.start(producer, self._servers, self._delivery_timeout_s)
            self._producer = producer
        return self._producer

    async def _abandon(self) -> None:
        """Close without a last attempt: a message of a failed call must not arrive after its repetition."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # stop() alone would first wait for what is queued, as long as Kafka is away; there is no public way to drop it.
            sender = producer._sender.sender_task
            if sender is not None:
                sender.cancel()
                # wait() and not await: a task that was cancelled before its first step ends as cancelled, and would cancel us.
                with anyio.move_on_after(ABANDON_S, shield=True):
                    await asyncio.wait([sender])
            accumulator = producer._message_accumulator
            accumulator.fail_all(ProducerClosed())
            for batch in chain(*accumulator._batches.values(), accumulator._pending_batches):
                batch._drain_waiter.exception()  # else asyncio would complain that nobody has seen it
            await connection.stop(producer)


Slot = tuple[str, int]


def _pack(
    producer: AIOKafkaProducer, messages: Sequence[OutMessage], left: Sequence[int], partitions: Mapping[str, int]
) -> tuple[Mapping[Slot, tuple[Any, list[int]]], Sequence[int]]:
    """One batch for each partition, filled in order, and what did not fit."""
    batches: dict[Slot, tuple[Any, list[int]]] = {}
    rest: list[int] = []
    for index in left:
        message = messages[index]
        slot = (message.topic, _partition(message.key, partitions[message.topic]))
        if slot not in batches:
            batches[slot] = (producer.create_batch(), [])
        builder, indexes = batches[slot]
        # A full batch takes nothing more, not even what would fit, so nothing overtakes.
        taken = builder.append(timestamp=None, key=message.key, value=message.value, headers=list(message.headers))
        (rest if taken is None else indexes).append(index)
    return batches, rest


def _note(acknowledged: list[bool], indexes: Sequence[int], future: "asyncio.Future[Any]") -> None:
    """Also when nobody waits any more, and asyncio would complain of an exception that nobody has seen."""
    if not future.cancelled() and future.exception() is None:
        for index in indexes:
            acknowledged[index] = True


async def _all(futures: Sequence["asyncio.Future[Any]"]) -> None:
    """Raises the failure of one of them once all are done. When it is cancelled they are not."""
    await asyncio.wait(futures)
    for future in futures:
        future.result()


_keyless = count()


def _partition(key: bytes | None, partitions: int) -> int:
    """The same choice as Kafka's own clients make."""
    return (next(_keyless) if key is None else _hash(key)) % partitions


@lru_cache(maxsize=65536)
def _hash(key: bytes) -> int:
    return int(murmur2(key)) & 0x7FFFFFFF


def size(message: OutMessage) -> int:
    """What is compared with `MAX_MESSAGE_BYTES`."""
    found = len(message.value or b"") + len(message.key or b"")
    for name, text in message.headers:
        found += len(name) + len(text)
    return found


def _check(message: OutMessage) -> None:
    if (found := size(message)) > MAX_MESSAGE_BYTES:
        raise RejectedError(
            Rejection.TOO_LARGE, f"a message of {found} bytes for {message.topic}; Kafka takes {MAX_MESSAGE_BYTES} at most"
        )
