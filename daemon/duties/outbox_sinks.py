"""The producers of the relay, one for each shard of the outbox.

Topics are compacted, and a run state that arrives late would be the last one of its run for ever. A daemon that was frozen, or a
connection that stalled, sends late. Three rules make the broker refuse such a record, or a newer one follow it:

1. The sink of a shard connects after its lease was claimed. The later the lease, the higher is the epoch of its producer.
2. Rows are read after the sink has connected, and only while the lease is held.
3. Rows are deleted only while the lease is held.

A partition with a record of a newer lease refuses those of an older one. A row that is read under the newer lease was not deleted
under the older one, and neither were the later rows of its run: all of them are sent again, in their order.

Kafka forgets a transactional id that no producer used for a week (`transactional.id.expiration.ms`), and then gives the next one
another producer id, whose epochs it does not compare. So a sink is replaced each day: to connect is what uses its id.

A sink connects in a task of its own: the broker that gives it its epoch may be away, and the others go on meanwhile. Rows of its
shard are read once it has connected.

A partition that does not answer rests. None of its rows is sent before all of its older ones are acknowledged or sent anew: a
partition stops resting between rounds only, and the relay then reads its rows again from the first one that waits (`Backlog`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from types import TracebackType
from typing import NamedTuple, Self

import anyio

from tidegate.daemon.settings import Settings
from tidegate.events.outbox_sink import PATIENCE_S, REST_S, OutboxSink
from tidegate.events.sink import ProducerRecord
from tidegate.events.source import Partition
from tidegate.schemas.error import FencedError, UnavailableError

REPLACED_S = 86_400.0

NAMED_FROM = 2
"""A sink is named after this number of failed connections while Kafka answered others. An outage of Kafka names none."""


class _HeldSink(NamedTuple):
    """A sink, the epoch of the lease for which it connects, and when it is replaced."""

    epoch: int
    sink: OutboxSink
    until: float


class _Failure(NamedTuple):
    """Why a sink could not connect, and when. `alone`: how many of its tries failed while Kafka answered other sinks."""

    error: UnavailableError | FencedError
    at: float
    alone: int


class _Connecting:
    """The sinks that connect or could not, by shard. `failures` has the last failure also while the sink is tried again."""

    def __init__(self) -> None:
        self.failures: dict[int, _Failure] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._answered_at = float("-inf")

    @property
    def shards(self) -> Set[int]:
        return self._tasks.keys() | self.failures.keys()

    def note_answer(self) -> None:
        """Kafka has answered a sink."""
        self._answered_at = anyio.current_time()

    def start(self, shard: int, sink: OutboxSink) -> None:
        if shard not in self._tasks:
            self._tasks[shard] = asyncio.create_task(self._try(shard, sink))

    async def _try(self, shard: int, sink: OutboxSink) -> None:
        before = self.failures.get(shard)
        since, alone = (before.at, before.alone) if before is not None else (anyio.current_time(), 0)
        try:
            await sink.connect()
        except (UnavailableError, FencedError) as error:
            self.failures[shard] = _Failure(error, anyio.current_time(), alone + (self._answered_at >= since))
        else:
            self.failures.pop(shard, None)
            self.note_answer()

    def due(self) -> Sequence[int]:
        """The shards to try again."""
        until = anyio.current_time() - REST_S
        return [shard for shard, failure in self.failures.items() if failure.at <= until and shard not in self._tasks]

    async def wait(self, shards: Collection[int], timeout_s: float | None, return_when: str) -> bool:
        """Wait for some of these; whether there were any."""
        tasks = [task for shard in shards if (task := self._tasks.get(shard)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=return_when)
            self.take_results()
        return bool(tasks)

    def take_results(self) -> None:
        for shard in [shard for shard, task in self._tasks.items() if task.done()]:
            self._tasks.pop(shard).result()

    async def forget(self, shard: int) -> None:
        """Let nothing connect any more."""
        self.failures.pop(shard, None)
        if (task := self._tasks.pop(shard, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Place(NamedTuple):
    """What a row waits for: a partition, as the sink of its shard sees it; None: a sink that failed."""

    shard: int
    partition: Partition | None


class SendResult(NamedTuple):
    """By record, in order, the place that it waits for, None for an acknowledged one; and the first failure."""

    waits: Sequence[Place | None]
    problem: UnavailableError | FencedError | None


class OutboxSinks:
    """A sink for each shard that this daemon holds; `new_sink` makes one from a transactional id. An async context manager."""

    def __init__(self, new_sink: Callable[[str], OutboxSink], prefix: str) -> None:
        self._new_sink = new_sink
        self._prefix = prefix
        self._sinks: dict[int, _HeldSink] = {}
        self._connecting = _Connecting()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.hold({})

    @property
    def connected(self) -> Set[int]:
        """The shards whose sink is connected."""
        return {shard for shard, held in self._sinks.items() if held.sink.is_connected}

    @property
    def resting(self) -> Set[Place]:
        """The places to which nothing is sent for now."""
        return {Place(shard, partition) for shard, held in self._sinks.items() for partition in held.sink.resting.all()}

    @property
    def silent(self) -> Mapping[Partition, str]:
        """The partitions that do not answer, with the reason."""
        return {partition: reason for held in self._sinks.values() for partition, reason in held.sink.resting.silent.items()}

    @property
    def connecting(self) -> Set[int]:
        """The shards whose rows are not to be read: their sinks connect, or could not while others could, and are tried again."""
        return self._connecting.shards

    @property
    def unconnected(self) -> Mapping[int, str]:
        """The shards whose sink can not connect although Kafka answers others, with the reason."""
        failures = self._connecting.failures
        return {shard: str(failure.error) for shard, failure in failures.items() if failure.alone >= NAMED_FROM}

    async def hold(self, held: Mapping[int, int]) -> None:
        """Have a sink for each of these leases, given as epoch by shard; close those of other leases, and those of a day ago."""
        now = anyio.current_time()
        lost = [shard for shard, kept in self._sinks.items() if held.get(shard) != kept.epoch or kept.until <= now]
        if lost:
            # Shielded, because a close takes seconds at most, and a daemon that stops has to close all.
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tg:
                    for shard in lost:
                        tg.start_soon(self._close, shard, self._sinks.pop(shard).sink)
        for shard in held.keys() - self._sinks.keys():
            self._sinks[shard] = _HeldSink(held[shard], self._new_sink(f"{self._prefix}outbox-{shard}"), now + REPLACED_S)

    async def _close(self, shard: int, sink: OutboxSink) -> None:
        await self._connecting.forget(shard)
        await sink.close()

    async def settle(self) -> None:
        """Take what partitions that rest, and sinks that connect, have answered, once in a round. Raises FencedError."""
        self._connecting.take_results()
        for shard in self._connecting.due():
            self._connecting.start(shard, self._sinks[shard].sink)
        await self._each([shard for shard, held in self._sinks.items() if held.sink.resting.all()], lambda sink: sink.settle())

    async def connect(self, shards: Collection[int]) -> bool:
        """Connect these sinks, all at once; returns whether any is connected. While another one is, they delay it for a moment.

        Raises UnavailableError when Kafka answers none.
        """
        for shard in shards:
            self._connecting.start(shard, self._sinks[shard].sink)
        await self._connecting.wait(shards, PATIENCE_S, asyncio.ALL_COMPLETED)
        while not self.connected and await self._connecting.wait(shards, None, asyncio.FIRST_COMPLETED):
            pass
        if not self.connected.isdisjoint(shards):
            return True
        self._raise_unanswered(shards)
        return False

    def _raise_unanswered(self, shards: Collection[int]) -> None:
        known = self._connecting.failures
        failures = {shard: known[shard] for shard in shards if shard in known and not known[shard].alone}
        if not self.connected:  # there is no other to go on with: the next round reads and connects these again
            for shard in failures:
                del self._connecting.failures[shard]
        if failures:
            raise next(iter(failures.values())).error

    async def _each(self, shards: Iterable[int], act: Callable[[OutboxSink], Awaitable[None]]) -> None:
        """Do it with all sinks at once, and raise the first failure."""
        problems: list[UnavailableError | FencedError] = []

        async def run(sink: OutboxSink) -> None:
            try:
                await act(sink)
            except (UnavailableError, FencedError) as error:
                problems.append(error)

        async with anyio.create_task_group() as tg:
            for shard in shards:
                tg.start_soon(run, self._sinks[shard].sink)
        if problems:
            raise problems[0]

    async def send_all(self, shards: Sequence[int], records: Sequence[ProducerRecord]) -> SendResult:
        """Send each record by the sink of its shard, all shards at once."""
        failed = {shard: Place(shard, None) for shard in set(shards)}
        waits: list[Place | None] = [failed[shard] for shard in shards]
        problems = list[UnavailableError | FencedError]()
        of_shards = defaultdict[int, list[int]](list)
        for index, shard in enumerate(shards):
            of_shards[shard].append(index)

        async def send(shard: int, indexes: Sequence[int]) -> None:
            try:
                found = await self._sinks[shard].sink.send_available([records[index] for index in indexes])
            except (UnavailableError, FencedError) as error:
                problems.append(error)
                return
            for index, partition in zip(indexes, found, strict=True):
                waits[index] = None if partition is None else Place(shard, partition)
            if None in found:
                self._connecting.note_answer()

        async with anyio.create_task_group() as tg:
            for shard, indexes in of_shards.items():
                tg.start_soon(send, shard, indexes)
        return SendResult(waits, problems[0] if problems else None)


def outbox_sinks(settings: Settings) -> OutboxSinks:
    """The sinks of a daemon with these settings."""
    return OutboxSinks(
        lambda id_: OutboxSink(settings.kafka_servers, security=settings.kafka_security, transactional_id=id_),
        settings.topic_prefix,
    )
