"""A simulated Kafka: logs that grow, read from positions that the product keeps."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import anyio

from tests.simulation.step import Call
from tidegate.events.offsets import Stored
from tidegate.events.outbox_sink import AcknowledgedLate, RestingPartitions, take_unsent
from tidegate.events.security import PLAINTEXT
from tidegate.events.sink import ProducerRecord
from tidegate.events.source import Bounds, Partition, Record
from tidegate.schemas.error import FencedError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity

if TYPE_CHECKING:
    from tests.simulation.daemon import Daemon
    from tests.simulation.world import World

KAFKA = "Kafka"
PARTITIONS = 2
AWAY = "no answer"
UNACKNOWLEDGED = "arrived, unacknowledged"
HALF = "half arrived"
GAPS = (0, 0, 0, 1, 3)
"""The number of offsets before a record that have none: compaction and the markers of transactions leave such gaps."""
STALLED = "arrives later"
SLOW = "one partition does not answer yet"


def partition_of(key: bytes | None) -> int:
    """Keys that end in consecutive digits are in different partitions."""
    return sum(key or b"") % PARTITIONS


def place_of(message: ProducerRecord) -> Partition:
    return Partition(message.topic, partition_of(message.key))


class Producer(NamedTuple):
    """An initialised producer; one without an id is never refused."""

    transactional_id: str | None = None
    epoch: int = 0


UNINITIALISED = Producer()


class Kafka:
    """Every topic by partition. New records wake the waiting readers."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.logs: dict[Partition, list[Record]] = defaultdict(list)
        self.stalled: list[tuple[Producer, Sequence[ProducerRecord]]] = []
        self._readers: list[asyncio.Event] = []
        self._epochs = Counter[str]()
        self._newest: dict[tuple[str, Partition], int] = {}

    def initialise(self, transactional_id: str | None) -> Producer:
        """A producer that fences the earlier ones of its id."""
        if transactional_id is None:
            return Producer()
        self._epochs[transactional_id] += 1
        return Producer(transactional_id, self._epochs[transactional_id])

    def append(self, message: ProducerRecord, producer: Producer = UNINITIALISED) -> bool:
        """False: the partition refuses it, because it has a record of a newer producer of the same id."""
        number = partition_of(message.key)
        partition = Partition(message.topic, number)
        if producer.transactional_id is not None:
            key = (producer.transactional_id, partition)
            if self._newest.setdefault(key, producer.epoch) > producer.epoch:
                return False
            self._newest[key] = producer.epoch
        log, now = self.logs[partition], self.world.server.now
        offset = self.end(partition) + self.world.chance.choice(GAPS)
        log.append(Record(message.topic, number, offset, now, message.key, message.headers, message.value))
        for reader in self._readers:
            reader.set()
        return True

    def end(self, partition: Partition) -> int:
        """The offset after the last record."""
        log = self.logs[partition]
        return log[-1].offset + 1 if log else 0

    def deliver_stalled(self) -> None:
        """The oldest request that stalled arrives."""
        producer, messages = self.stalled.pop(0)
        arrived = sum(self.append(message, producer) for message in messages)
        self.world.scheduler.tell(f"Kafka: {arrived} of {len(messages)} arrive late")

    def of(self, topic: str) -> list[Record]:
        """All of it; within a partition in order."""
        return [record for number in range(PARTITIONS) for record in self.logs[Partition(topic, number)]]

    async def news(self) -> None:
        """Wait until something is appended."""
        reader = asyncio.Event()
        self._readers.append(reader)
        try:
            await reader.wait()
        finally:
            self._readers.remove(reader)


class Source:
    """In the place of `tidegate.events.source.Source`: the address says whose it is."""

    daemons: dict[str, "Daemon"] = {}  # noqa: RUF012 - the product makes sources, and knows addresses only

    def __init__(  # the arguments of the product's
        self,
        servers: str,
        *,
        security: KafkaSecurity = PLAINTEXT,  # noqa: ARG002
        group: str | None = None,  # noqa: ARG002
        timeout_s: float = 15.0,  # noqa: ARG002
    ) -> None:
        self._daemon = self.daemons[servers]
        self._world = self._daemon.world
        self._kafka = self._world.kafka
        self._positions: dict[Partition, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._positions = dict(sorted(positions.items()))

    async def fetch(self, timeout_s: float, max_records: int) -> Mapping[Partition, Sequence[Record]]:  # noqa: ARG002 - as above
        """Some of the available records, as Kafka may."""
        with anyio.move_on_after(timeout_s):
            while not any(self._kafka.end(p) > at for p, at in self._positions.items()):
                await self._kafka.news()
        if not any(self._kafka.end(p) > at for p, at in self._positions.items()):
            return {}
        found: Mapping[Partition, Sequence[Record]] = await self._world.scheduler.wait(
            Call(self._daemon, KAFKA, "fetch", self._fetched, [AWAY])
        )
        return found

    def _fetched(self, trouble: str) -> Mapping[Partition, Sequence[Record]]:
        if trouble:
            raise UnavailableError("Kafka does not answer")
        found = {}
        for partition, at in self._positions.items():
            ahead = [record for record in self._kafka.logs[partition] if record.offset >= at]
            if records := ahead[: self._world.chance.randint(1, 4)]:
                found[partition] = records
                self._positions[partition] = records[-1].offset + 1
        return found

    def positions(self) -> Mapping[Partition, int]:
        return self._positions

    def leaderless(self) -> frozenset[Partition]:
        return frozenset()

    async def has_leader(self, topic: str) -> Mapping[int, bool]:  # noqa: ARG002 - as above
        return dict.fromkeys(range(PARTITIONS), True)

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        return {partition: Bounds(0, self._kafka.end(partition)) for partition in partitions}

    async def lag(self) -> Mapping[Partition, int]:
        return {partition: self._kafka.end(partition) - at for partition, at in self._positions.items()}

    async def commit(self, positions: Mapping[Partition, int], note: str, **_: Any) -> None:
        pass

    async def committed(self, partitions: Collection[Partition]) -> Mapping[Partition, Stored]:  # noqa: ARG002 - as above
        """No schedule restores a backup."""
        return {}


class OutboxSink:
    """In the place of `tidegate.events.outbox_sink.OutboxSink`."""

    def __init__(  # the arguments of the product's
        self,
        servers: str,
        *,
        security: KafkaSecurity = PLAINTEXT,  # noqa: ARG002
        delivery_timeout_s: float = 10.0,
        transactional_id: str | None = None,
    ) -> None:
        self._daemon = Source.daemons[servers]
        self._world = self._daemon.world
        self._delivery_timeout_s = delivery_timeout_s
        self._transactional_id = transactional_id
        self._producer: Producer | None = None
        self.resting = RestingPartitions()
        self._late = AcknowledgedLate()
        self._batches: dict[Partition, Sequence[ProducerRecord]] = {}

    @property
    def is_connected(self) -> bool:
        return self._producer is not None

    async def connect(self) -> None:
        self._producer = await self._world.scheduler.wait(
            Call(self._daemon, KAFKA, f"connect as {self._transactional_id}", self._initialised, [AWAY, UNACKNOWLEDGED])
        )

    async def close(self) -> None:
        self._close()

    def _close(self) -> None:
        """What is on its way may still arrive."""
        if self._producer is not None:
            self._world.kafka.stalled += [(self._producer, messages) for messages in self._batches.values()]
        self._producer = None
        self._batches.clear()
        self.resting.forget_batches()

    async def settle(self) -> None:
        now = anyio.current_time()
        self.resting.end_rests(now)
        if overdue := self.resting.overdue(now):
            for partition in overdue:
                self.resting.give_up(partition, SLOW, now)
            self._close()
        elif self._batches and self._producer:
            await self._ask(f"answers about {len(self._batches)} partitions", partial(self._answered, self._producer), [AWAY])

    async def send_available(self, messages: Sequence[ProducerRecord]) -> Sequence[Partition | None]:
        if self._producer is None:
            raise UnavailableError("not connected")
        waits: list[Partition | None] = [place_of(message) for message in messages]
        unsent = sorted(take_unsent(messages, waits, lambda partition: partition not in self.resting, self._late))
        if unsent:
            send = partial(self._sent, self._producer, [messages[index] for index in unsent])
            known = await self._ask(f"send {len(unsent)} to Kafka", send, [AWAY, UNACKNOWLEDGED, HALF, STALLED, SLOW])
            for index, acknowledged in zip(unsent, known, strict=True):
                if acknowledged:
                    waits[index] = None
        return waits

    async def _ask(self, what: str, act: Callable[[str], Any], troubles: Sequence[str]) -> Any:
        try:
            return await self._world.scheduler.wait(Call(self._daemon, KAFKA, what, act, troubles))
        except BaseException:
            self._close()
            raise

    def _initialised(self, trouble: str) -> Producer:
        producer = self._world.kafka.initialise(self._transactional_id) if trouble != AWAY else Producer()
        if trouble:
            raise UnavailableError("Kafka does not answer")
        return producer

    def _answered(self, producer: Producer, trouble: str) -> None:
        """What was on its way has arrived."""
        if not trouble:
            for partition, messages in self._batches.items():
                self._append(producer, messages)
                self._late.add(partition, messages)
                self.resting.answered(partition)
            self._batches.clear()

    def _sent(self, producer: Producer, messages: Sequence[ProducerRecord], trouble: str) -> Sequence[bool]:
        """Of messages in a row the first ones arrive, and the first ones of those are acknowledged."""
        if trouble == SLOW:
            return self._sent_in_part(producer, messages)
        if trouble == STALLED:
            self._world.kafka.stalled.append((producer, messages))
        arrived = {AWAY: 0, STALLED: 0, HALF: self._world.chance.randint(0, len(messages))}.get(trouble, len(messages))
        self._append(producer, messages[:arrived])
        if not trouble:
            for message in messages:
                self.resting.answered(place_of(message))
            return [True] * len(messages)
        known = self._world.chance.randint(0, arrived)
        for message in messages[known : known + 1]:
            self.resting.give_up(place_of(message), trouble, anyio.current_time())
        self._close()
        return [number < known for number in range(len(messages))]

    def _sent_in_part(self, producer: Producer, messages: Sequence[ProducerRecord]) -> Sequence[bool]:
        """What is for one partition stays on its way."""
        slow = self._world.chance.choice([place_of(message) for message in messages])
        self._append(producer, [message for message in messages if place_of(message) != slow])
        self._batches[slow] = [message for message in messages if place_of(message) == slow]
        self.resting.await_answer(slow, anyio.current_time() + self._delivery_timeout_s)
        return [place_of(message) != slow for message in messages]

    def _append(self, producer: Producer, messages: Sequence[ProducerRecord]) -> None:
        if [message for message in messages if not self._world.kafka.append(message, producer)]:
            raise FencedError(f"another producer writes as {producer.transactional_id}")
