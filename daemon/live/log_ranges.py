"""The ranges of the logs in Kafka. A web process asks for them once for all requests of some seconds."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

import anyio

from tidegate.daemon.settings import Settings
from tidegate.events import connection
from tidegate.events.source import Bounds, Partition, Source
from tidegate.schemas.error import UnavailableError

TIMEOUT_S = 3.0
"""The time for each answer of Kafka."""

ALL_S = 6.0
"""The time for all of them. The end of the clients may take longer while Kafka does not answer."""

WAIT_S = 8.0
"""The most that a request waits, also for the end of the clients of the one before."""

KEPT_S = 5.0

LATE = "Kafka did not answer in time; the next requests get its answer once it comes"

Ask = Callable[[Collection[Partition]], Awaitable[Mapping[Partition, Bounds]]]
"""Raises UnavailableError."""


class Answer(NamedTuple):
    """The answer of Kafka about the partitions `asked`, which is used until `expires_at`.

    `problem` says why Kafka gave none; it is empty after an answer.
    """

    asked: frozenset[Partition]
    ranges: Mapping[Partition, Bounds]
    problem: str
    expires_at: float


class LogRanges:
    """The last answer, and the one request in flight.

    Without both, pages would open clients without end while Kafka does not answer. `clock` is monotonic, in seconds. The caller
    closes it.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._answer = Answer(frozenset(), {}, "", clock())
        self._flight: asyncio.Task[None] | None = None

    async def of(self, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
        """At least those of these partitions that Kafka can read, as they were at most `KEPT_S` ago. Raises UnavailableError."""
        wanted = frozenset(partitions)
        try:
            with anyio.fail_after(WAIT_S):
                while not self._knows(wanted):
                    await asyncio.shield(self._in_flight(wanted))  # it goes on without a request that ends
        except TimeoutError as error:
            raise UnavailableError(LATE) from error
        if self._answer.problem:
            raise UnavailableError(self._answer.problem)
        return self._answer.ranges

    def _knows(self, wanted: frozenset[Partition]) -> bool:
        """An answer that Kafka is away counts for all partitions."""
        return self._clock() < self._answer.expires_at and (bool(self._answer.problem) or wanted <= self._answer.asked)

    def _in_flight(self, wanted: frozenset[Partition]) -> asyncio.Task[None]:
        """The request in flight, or a new one. It asks for the known partitions, too: pages alternate."""
        if self._flight is None or self._flight.done():
            self._flight = asyncio.create_task(self._request(wanted | self._answer.asked))
        return self._flight

    async def _request(self, asked: frozenset[Partition]) -> None:
        ranges: Mapping[Partition, Bounds] = {}
        problem = ""
        try:
            ranges = await self._ask(asked)
        except UnavailableError as error:
            problem = str(error)
        self._answer = Answer(asked, ranges, problem, self._clock() + KEPT_S)

    async def aclose(self) -> None:
        """End the request in flight."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait([self._flight], timeout=WAIT_S)


async def ranges_of(settings: Settings, partitions: Collection[Partition]) -> Mapping[Partition, Bounds]:
    """Ask Kafka once. Partitions that it does not have, or that have no leader, are left out. Raises UnavailableError."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for topic, number in partitions:
        numbers[topic].add(number)
    servers = settings.kafka_servers
    with connection.translated_errors(servers), anyio.fail_after(ALL_S):
        async with Source(servers, security=settings.kafka_security, timeout_s=TIMEOUT_S) as source:
            readable = [
                Partition(topic, number)
                for topic, wanted in numbers.items()
                for number, has_leader in (await source.has_leader(topic)).items()
                if has_leader and number in wanted
            ]
            return await source.bounds(readable) if readable else {}
