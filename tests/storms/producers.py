"""Producers that know of every record whether Kafka has it, and send again what they are not sure of."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import anyio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.storms.records import Planned

CHUNK = 25
AGAIN_AFTER_S = 0.3
REQUEST_TIMEOUT_MS = 4000
MAX_REQUEST_BYTES = 8 << 20


class Tally:
    """What all producers together know. `unknown` counts the times that an acknowledgement did not come."""

    def __init__(self) -> None:
        self.acknowledged: list[Planned] = []
        self.unknown = 0


async def produce(
    servers: str, topic: str, records: Sequence[Planned], tally: Tally, *, within_s: float, at_once: int = CHUNK
) -> None:
    """Send in order and evenly over `within_s`, `at_once` at a time; return when everything is acknowledged."""
    chunks = [records[start : start + at_once] for start in range(0, len(records), at_once)]
    begin = anyio.current_time()
    producer = Producer(servers, topic)
    try:
        for number, chunk in enumerate(chunks):
            await anyio.sleep_until(begin + within_s * number / len(chunks))
            await _persist(producer, chunk, tally)
    finally:
        with anyio.CancelScope(shield=True):
            await producer.stop()


async def _persist(producer: "Producer", records: Sequence[Planned], tally: Tally) -> None:
    left = records
    while left:
        answers = await producer.send(left)
        tally.acknowledged += [record for record, arrived in zip(left, answers, strict=True) if arrived]
        left = [record for record, arrived in zip(left, answers, strict=True) if not arrived]
        if left:
            tally.unknown += len(left)
            await anyio.sleep(AGAIN_AFTER_S)


class Producer:
    """Not idempotent, so that what it repeats is in the topic twice; connects anew after every failure."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._client: AIOKafkaProducer | None = None

    async def send(self, records: Sequence[Planned]) -> list[bool]:
        """Of each record whether it was acknowledged; False means that the outcome is unknown."""
        futures: list[asyncio.Future[Any]] = []
        try:
            client = await self._connected()
            for record in records:
                futures.append(await client.send(self._topic, record.value, record.key, headers=list(record.headers)))
                futures[-1].add_done_callback(_seen)
        except (KafkaError, OSError):
            await self.stop()
            return [False] * len(records)
        results = await asyncio.gather(*futures, return_exceptions=True)
        arrived = [not isinstance(result, BaseException) for result in results]
        if not all(arrived):
            await self.stop()
        return arrived

    async def _connected(self) -> AIOKafkaProducer:
        if self._client is None:
            client = AIOKafkaProducer(
                bootstrap_servers=self._servers,
                acks="all",
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                max_request_size=MAX_REQUEST_BYTES,
            )
            try:
                await client.start()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await client.stop()
                raise
            self._client = client
        return self._client

    async def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(KafkaError, OSError):
                await client.stop()


def _seen(future: "asyncio.Future[Any]") -> None:
    """No caller awaits records that were sent before one that failed: asyncio must not report their errors."""
    if not future.cancelled():
        future.exception()
