"""The producers of the relay, one for each shard of the outbox.

Topics are compacted, and a run state that arrives late would be the last one of its run for ever. A daemon that was frozen, or a
connection that stalled, sends late. Three rules make the broker refuse such a record, or a newer one follow it:

1. The sink of a shard connects after its lease was claimed. The later the lease, the higher is the epoch of its producer.
2. Rows are read after the sink has connected, and only while the lease is held.
3. Rows are deleted only while the lease is held.

A partition with a record of a newer lease refuses those of an older one. A row that is read under the newer lease was not deleted
under the older one, and neither were the later rows of its run: all of them are sent again, in their order.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from types import TracebackType
from typing import NamedTuple, Self

import anyio

from tidegate.events.sink import OutMessage, Sink, UndeliveredError
from tidegate.schemas.error import FencedError, UnavailableError


class _HeldSink(NamedTuple):
    """A sink, and the epoch of the lease for which it connects."""

    epoch: int
    sink: Sink


class SendResult(NamedTuple):
    """One flag per message, in order, and the first failure. False means unknown, as in UndeliveredError."""

    acknowledged: Sequence[bool]
    problem: UnavailableError | FencedError | None


class OutboxSinks:
    """A sink for each shard that this daemon holds; `new_sink` makes one from a transactional id. An async context manager."""

    def __init__(self, new_sink: Callable[[str], Sink], prefix: str) -> None:
        self._new_sink = new_sink
        self._prefix = prefix
        self._sinks: dict[int, _HeldSink] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.hold({})

    @property
    def connected(self) -> Set[int]:
        """The shards whose sink is connected."""
        return {shard for shard, held in self._sinks.items() if held.sink.is_connected}

    async def hold(self, held: Mapping[int, int]) -> None:
        """Have a sink for each of these leases, given as epoch by shard, and close the sinks of others."""
        lost = [shard for shard, of in self._sinks.items() if held.get(shard) != of.epoch]
        if lost:
            # Shielded, because a close takes seconds at most, and a daemon that stops has to close all.
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as tg:
                    for shard in lost:
                        tg.start_soon(self._sinks.pop(shard).sink.close)
        for shard in held.keys() - self._sinks.keys():
            self._sinks[shard] = _HeldSink(held[shard], self._new_sink(f"{self._prefix}outbox-{shard}"))

    async def connect(self, shards: Collection[int]) -> None:
        """Connect the sinks of these shards, all at once. Raises UnavailableError when Kafka does not answer."""
        problems: list[UnavailableError] = []

        async def connect(sink: Sink) -> None:
            try:
                await sink.connect()
            except UnavailableError as error:
                problems.append(error)

        async with anyio.create_task_group() as tg:
            for shard in shards:
                tg.start_soon(connect, self._sinks[shard].sink)
        if problems:
            raise problems[0]

    async def send_all(self, shards: Sequence[int], messages: Sequence[OutMessage]) -> SendResult:
        """Send each message by the sink of its shard, all shards at once."""
        acknowledged, problems = [False] * len(messages), list[UnavailableError | FencedError]()
        of_shards = defaultdict[int, list[int]](list)
        for index, shard in enumerate(shards):
            of_shards[shard].append(index)

        async def send(sink: Sink, indexes: Sequence[int]) -> None:
            flags: Sequence[bool] = ()
            try:
                flags = await sink.send_all([messages[index] for index in indexes])
            except UndeliveredError as error:
                flags = error.acknowledged
                problems.append(error)
            except FencedError as error:
                problems.append(error)
            for index, flag in zip(indexes, flags, strict=False):
                acknowledged[index] = flag

        async with anyio.create_task_group() as tg:
            for shard, indexes in of_shards.items():
                tg.start_soon(send, self._sinks[shard].sink, indexes)
        return SendResult(acknowledged, problems[0] if problems else None)
