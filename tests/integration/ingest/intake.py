"""Records into Kafka, and what a daemon's ingest makes of them."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import anyio
import anyio.lowlevel
import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from tidegate.daemon.context import Context
from tidegate.daemon.duties.outbox_sinks import outbox_sinks
from tidegate.daemon.duties.relay import leases, relay_batch
from tidegate.daemon.intake.ingest import ingest
from tidegate.daemon.leases import HeldLeases, register, renew, renew_leases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.events.source import Partition
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Job, Terms
from tidegate.schemas.wire.event import Kind

WITHIN_S = 60.0
LOOK_EVERY_S = 0.02
MAX_REQUEST_BYTES = 8 << 20
LEASE_TTL_S = 600.0
"""Whatever is done under a lease that was renewed once."""

STANDS = "SELECT next_offset FROM lease WHERE kind = 'partition' AND key = $1"


class Sent(NamedTuple):
    """A record as a producer writes it."""

    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = None


class Intake:
    """One daemon that only reads. Of a former version, it does not sign what it publishes."""

    def __init__(self, settings: Settings, database: Database, *, signs: bool = True) -> None:
        self.settings = settings
        self.terms = Terms(lease_ttl_s=LEASE_TTL_S, signs=signs)
        self.database = database
        self.watermark = OutboxWatermark()
        self.context = Context(
            settings=settings,
            database=database,
            held_leases=_nothing_held(settings, self.terms),
            signals=Signals(),
            outages=Outages(),
            backends={},
        )

    async def take(self, kind: Kind, *records: Sent) -> None:
        """Send the records and read until the recorded offset is behind the last of them."""
        end = await self.send(kind, *records)
        async with self.reading(kind):
            while await self.stands(kind) != end:
                await anyio.sleep(LOOK_EVERY_S)

    @asynccontextmanager
    async def reading(self, kind: Kind) -> AsyncIterator[None]:
        """Raises TimeoutError when it takes too long."""
        self._be_there()
        with anyio.fail_after(WITHIN_S):
            async with anyio.create_task_group() as tg:
                await tg.start(
                    renew_leases, self.database, self.context.held_leases, self.settings.lease_renew_s, self.context.outages
                )
                await tg.start(partial(ingest, kind, self.context))
                yield
                tg.cancel_scope.cancel()

    def _be_there(self) -> None:
        """A daemon that has left does not come back: it is another one."""
        if self.context.held_leases.released:
            self.context = msgspec.structs.replace(self.context, held_leases=_nothing_held(self.settings, self.terms))

    async def relay(self, kind: Kind) -> "list[ConsumerRecord[bytes, bytes]]":
        """Publish what waits in the outbox; the records that a topic has then."""
        self._be_there()
        await register(self.database, leases())
        await renew(self.database, self.context.held_leases)
        async with outbox_sinks(self.settings) as sinks:
            while await relay_batch(self.context, sinks, self.watermark) or sinks.resting:
                await anyio.lowlevel.checkpoint()
        return await self.published(kind)

    async def published(self, kind: Kind) -> "list[ConsumerRecord[bytes, bytes]]":
        partition = TopicPartition(*self.partition(kind))
        async with AIOKafkaConsumer(bootstrap_servers=self.settings.kafka_servers) as consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            found: list[ConsumerRecord[bytes, bytes]] = []
            while await consumer.position(partition) < end:  # Compaction leaves gaps.
                found += (await consumer.getmany(timeout_ms=500)).get(partition, [])
            return found

    async def send(self, kind: Kind, *records: Sent, partition: int = 0) -> int:
        """The offset behind the last one."""
        async with AIOKafkaProducer(
            bootstrap_servers=self.settings.kafka_servers, max_request_size=MAX_REQUEST_BYTES
        ) as producer:
            for record in records:
                sent = await producer.send_and_wait(
                    self.settings.topic(kind), record.value, record.key, partition=partition, headers=list(record.headers)
                )
        return int(sent.offset) + 1

    def partition(self, kind: Kind) -> Partition:
        return Partition(self.settings.topic(kind), 0)

    async def stands(self, kind: Kind, partition: int = 0) -> int | None:
        """The recorded offset."""
        rows = await self.rows(STANDS, f"{self.settings.topic(kind)}/{partition}")
        return rows[0]["next_offset"] if rows else None

    async def letters(self) -> list[dict[str, Any]]:
        """All dead letters, oldest first."""
        return await self.rows('SELECT * FROM dead_letter ORDER BY topic, partition, "offset"')

    async def uris(self) -> list[str]:
        """The datasets of all events in the ledger, oldest first."""
        rows = await self.rows(
            "SELECT uri FROM dataset_event AS event JOIN dataset ON dataset.id = event.dataset_id ORDER BY event.id"
        )
        return [row["uri"] for row in rows]

    async def rows(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        async def read(db: Db) -> list[dict[str, Any]]:
            return [dict(row) for row in await db.fetch(sql, *args)]

        return await self.database.run(read)


def _nothing_held(settings: Settings, terms: Terms) -> HeldLeases:
    return HeldLeases(Job(uuid4(), settings.host, os.getpid(), "test", terms))
