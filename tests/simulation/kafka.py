"""A simulated Kafka: logs that grow, read from positions that the product keeps."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from zlib import crc32

import anyio

from tests.simulation.step import Call
from tidegate.events.security import OPEN
from tidegate.events.sink import OutMessage, UndeliveredError
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
"""So many offsets before a record have none: compaction and the markers of transactions leave such gaps."""
STALLED = "arrives later"


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
        self.stalled: list[tuple[Producer, Sequence[OutMessage]]] = []
        self._readers: list[asyncio.Event] = []
        self._epochs = Counter[str]()
        self._newest: dict[tuple[str, Partition], int] = {}

    def initialise(self, transactional_id: str | None) -> Producer:
        """A producer that fences the earlier ones of its id."""
        if transactional_id is None:
            return Producer()
        self._epochs[transactional_id] += 1
        return Producer(transactional_id, self._epochs[transactional_id])

    def append(self, message: OutMessage, producer: Producer = UNINITIALISED) -> bool:
        """False: the partition refuses it, because it has a record of a newer producer of the same id."""
        number = crc32(message.key or b"") % PARTITIONS
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
        security: KafkaSecurity = OPEN,  # noqa: ARG002
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

    async def partitions_of(self, topic: str) -> frozenset[int]:  # noqa: ARG002 - as above
        return frozenset(range(PARTITIONS))

    async def bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        return {partition: Bounds(0, self._kafka.end(partition)) for partition in partitions}

    async def lag(self) -> Mapping[Partition, int]:
        return {partition: self._kafka.end(partition) - at for partition, at in self._positions.items()}

    async def commit(self, positions: Mapping[Partition, int], **_: Any) -> None:
        pass


class Sink:
    """In the place of `tidegate.events.sink.Sink`."""

    def __init__(  # the arguments of the product's
        self,
        servers: str,
        *,
        security: KafkaSecurity = OPEN,  # noqa: ARG002
        delivery_timeout_s: float = 10.0,  # noqa: ARG002
        transactional_id: str | None = None,
    ) -> None:
        self._daemon = Source.daemons[servers]
        self._world = self._daemon.world
        self._transactional_id = transactional_id
        self._producer: Producer | None = None

    @property
    def is_connected(self) -> bool:
        return self._producer is not None

    async def connect(self) -> None:
        self._producer = await self._world.scheduler.wait(
            Call(self._daemon, KAFKA, f"connect as {self._transactional_id}", self._initialised, [AWAY, UNACKNOWLEDGED])
        )

    async def close(self) -> None:
        self._producer = None

    async def send_all(self, messages: Sequence[OutMessage]) -> Sequence[bool]:
        producer = self._producer
        if producer is None:
            raise UnavailableError("not connected")

        def send(trouble: str) -> Sequence[bool]:
            return self._sent(producer, messages, trouble)

        what = f"send {len(messages)} to Kafka"
        try:
            acknowledged: Sequence[bool] = await self._world.scheduler.wait(
                Call(self._daemon, KAFKA, what, send, [AWAY, UNACKNOWLEDGED, HALF, STALLED])
            )
        except BaseException:
            self._producer = None
            raise
        return acknowledged

    def _initialised(self, trouble: str) -> Producer:
        producer = self._world.kafka.initialise(self._transactional_id) if trouble != AWAY else Producer()
        if trouble:
            raise UnavailableError("Kafka does not answer")
        return producer

    def _sent(self, producer: Producer, messages: Sequence[OutMessage], trouble: str) -> Sequence[bool]:
        """Of messages in a row the first ones arrive, and the first ones of those are acknowledged."""
        if trouble == STALLED:
            self._world.kafka.stalled.append((producer, messages))
        arrived = {AWAY: 0, STALLED: 0, HALF: self._world.chance.randint(0, len(messages))}.get(trouble, len(messages))
        if [message for message in messages[:arrived] if not self._world.kafka.append(message, producer)]:
            raise FencedError(f"another producer writes as {producer.transactional_id}")
        if not trouble:
            return [True] * len(messages)
        known = self._world.chance.randint(0, arrived)
        raise UndeliveredError("Kafka does not answer", [number < known for number in range(len(messages))])
