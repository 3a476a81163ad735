"""Three brokers that are one cluster, each of them controller too: to be stopped, killed, frozen and started again one by one."""

import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NamedTuple, Self

import anyio
import psutil
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from tests.waiting import until
from tidegate.daemon.standalone.kafka import Kafka, new_cluster
from tidegate.daemon.standalone.port import LOOPBACK

NODES = (1, 2, 3)
SYNC_S = 90.0
LOOK_EVERY_S = 0.2
REQUEST_TIMEOUT_MS = 3000

PROPERTIES = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    "leader.imbalance.check.interval.seconds": "2",
    "leader.imbalance.per.broker.percentage": "0",
}
"""Leaders move back to where they belong soon after every restart: a change of leaders more."""


class Seat(NamedTuple):
    """The ports of one node."""

    clients: int
    controllers: int


class Replicas(NamedTuple):
    """Where the copies of a partition are; no leader is -1."""

    topic: str
    partition: int
    leader: int
    copies: frozenset[int]
    in_sync: frozenset[int]


class Member(Kafka):
    """One node. Its ports are known to the others, and so never change."""

    heap_mb: ClassVar[int] = 256
    usual_s: ClassVar[float] = 120.0

    def __init__(self, home: Path, cache: Path, node: int, cluster: str, seats: Mapping[int, Seat]) -> None:
        super().__init__(home, cache)
        self.node = node
        self._cluster_id = cluster
        self._seats = seats

    def _cluster(self) -> str:
        return self._cluster_id

    def _choose_ports(self) -> tuple[int, ...]:
        return self._seats[self.node]

    def _properties(self, data: Path, chosen: tuple[int, ...]) -> dict[str, str]:
        voters = ",".join(f"{node}@{LOOPBACK}:{seat.controllers}" for node, seat in self._seats.items())
        return {**super()._properties(data, chosen), **PROPERTIES, "controller.quorum.voters": voters}


class Quorum:
    """`async with` it: all are up and in sync when the block begins, and gone after it."""

    def __init__(self, home: Path, cache: Path) -> None:
        self._held = ExitStack()
        seats = {node: Seat(*_reserve(self._held, 2)) for node in NODES}
        cluster = new_cluster()
        self.addresses = {node: f"{LOOPBACK}:{seat.clients}" for node, seat in seats.items()}
        self.members = {node: Member(home / f"node-{node}", cache, node, cluster, seats) for node in NODES}

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    async def start(self, nodes: Collection[int] = NODES) -> None:
        """Side by side, for the first ones answer only together."""
        await self._each(nodes, lambda node: self.members[node].start())

    async def stop(self, nodes: Collection[int] = NODES) -> None:
        """In good order: leaders move before it ends."""
        await self._each(nodes, lambda node: self.members[node].stop())

    async def kill(self, nodes: Collection[int] = NODES) -> None:
        await self._each(nodes, lambda node: self.members[node].kill())

    async def _each(self, nodes: Iterable[int], act: Callable[[int], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as tg:
            for node in nodes:
                tg.start_soon(_call, act, node)

    def freeze(self, node: int) -> None:
        """It stands still before we return: on a busy machine it may answer for a moment."""
        os.kill(self.members[node].pid, signal.SIGSTOP)
        while psutil.Process(self.members[node].pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)

    def thaw(self, node: int) -> None:
        os.kill(self.members[node].pid, signal.SIGCONT)

    async def replicas(self) -> Sequence[Replicas]:
        """As some broker knows it. Raises KafkaError when none does."""
        client = AIOKafkaClient(bootstrap_servers=self.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)
        try:
            await client.bootstrap()
            metadata = await client.fetch_all_metadata()
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()
        found = (each for partitions in metadata._partitions.values() for each in partitions.values())
        return [Replicas(p.topic, p.partition, p.leader, frozenset(p.replicas), frozenset(p.isr)) for p in found]

    async def leaders(self, prefix: str) -> Mapping[tuple[str, int], int]:
        """Who leads each partition of these topics."""
        return {(p.topic, p.partition): p.leader for p in await self.replicas() if p.topic.startswith(prefix)}

    async def until_in_sync(self, within_s: float = SYNC_S) -> None:
        """Until every copy of everything is in sync. Raises TimeoutError."""
        await until(self._in_sync, within_s, LOOK_EVERY_S)

    async def _in_sync(self) -> bool:
        try:
            return all(p.leader >= 0 and p.in_sync == p.copies for p in await self.replicas())
        except KafkaError:
            return False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with anyio.CancelScope(shield=True):
            await self.kill()
        self._held.close()


async def _call(act: Callable[[int], Awaitable[None]], node: int) -> None:
    await act(node)


def _reserve(held: ExitStack, count: int) -> tuple[int, ...]:
    """Ports that the kernel gives to no other process: a node that is down must find its own free when it restarts.

    They are bound without a listener: a server that sets SO_REUSEADDR, as the JVM does, can bind them.
    """
    sockets = [held.enter_context(socket.socket()) for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind((LOOPBACK, 0))
    return tuple(each.getsockname()[1] for each in sockets)
