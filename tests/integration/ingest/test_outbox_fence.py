"""A late request of the relay appends no record: the compacted topic would keep an old state of the run for ever."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.integration.ingest.intake import Intake
from tests.integration.ingest.stalling_proxy import StallingProxy
from tests.servers import MakeSettings
from tests.storms.broker import Broker
from tests.transactions import transaction
from tidegate.daemon.duties.outbox_sinks import OutboxSinks, SendResult, outbox_sinks
from tidegate.daemon.duties.relay import leases, relay_batch
from tidegate.daemon.leases import register, renew
from tidegate.daemon.postgres.database import Database
from tidegate.events import topics
from tidegate.events.outbox_sink import OutboxSink
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.error import FencedError
from tidegate.schemas.queries import outbox
from tidegate.schemas.wire.event import Kind

WITHIN_S = 60.0
WRITE = """
    INSERT INTO outbox (shard, kind, key, event_id, time, payload)
    SELECT $1, 'dag-run-state', $2, $2 || '/' || seq, now(), convert_to(json_build_object('seq', seq)::text, 'UTF8')
    FROM unnest($3::integer[]) AS seq
"""
SILENT = "UPDATE job SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE id = $1"
COMPACT_SOON = {
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
    "min.cleanable.dirty.ratio": "0.001",
    "cleanup.policy": "compact",
}


class FrozenSinks(OutboxSinks):
    """Freezes before it sends the rows it was given."""

    def __init__(self, sinks: OutboxSinks) -> None:
        super().__init__(sinks._new_sink, sinks._prefix)
        self.frozen, self.resumed = anyio.Event(), anyio.Event()

    async def send_all(self, shards: Sequence[int], messages: Sequence[ProducerRecord]) -> SendResult:
        self.frozen.set()
        await self.resumed.wait()
        return await super().send_all(shards, messages)


async def write(daemon: Intake, *seqs: int, key: str = "d/r") -> None:
    async with transaction(daemon.settings.postgres_dsn) as db:
        await db.execute(WRITE, outbox.shard(key), key, list(seqs))


async def published(daemon: Intake, key: str = "d/r") -> list[int]:
    """The numbers of the states that the topic has of a run."""
    records = await daemon.published(Kind.DAG_RUN_STATE)
    return [json.loads(record.value or b"")["seq"] for record in records if record.key == key.encode()]


async def compact_soon(kafka: str, topic: str) -> None:
    """As Kafka does in a week."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, COMPACT_SOON)])
    await admin.close()


@pytest.fixture
async def frozen(intake: Intake) -> AsyncIterator[FrozenSinks]:
    """Of a daemon that holds all shards."""
    await register(intake.database, leases())
    await renew(intake.database, intake.context.held_leases)
    async with FrozenSinks(outbox_sinks(intake.settings)) as sinks:
        yield sinks


async def relay_all(daemon: Intake, sinks: OutboxSinks) -> None:
    while await relay_batch(daemon.context, sinks, daemon.watermark):
        pass


async def relay_until_fenced(daemon: Intake, sinks: OutboxSinks) -> None:
    with pytest.raises(FencedError, match=r"another producer writes as test-.*outbox-"):
        await relay_all(daemon, sinks)


async def test_a_relay_that_was_frozen_for_longer_than_its_lease_publishes_no_old_state(
    intake: Intake, database: Database, frozen: FrozenSinks
) -> None:
    successor = Intake(intake.settings, database)
    await write(intake, 1, 2)

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            tg.start_soon(relay_until_fenced, intake, frozen)
            await frozen.frozen.wait()
            await database.pool.execute(SILENT, intake.context.held_leases.job.id)
            await write(intake, 3)
            await successor.relay(Kind.DAG_RUN_STATE)
            frozen.resumed.set()

    assert await published(successor) == [1, 2, 3]
    await compact_soon(intake.settings.kafka_servers, intake.settings.topic(Kind.DAG_RUN_STATE))
    with anyio.fail_after(WITHIN_S):
        while await published(successor) != [3]:  # The newest segment is never compacted: further records end it.
            await write(successor, 1, key="filler/r")
            await successor.relay(Kind.DAG_RUN_STATE)


async def test_a_daemon_without_the_lease_reads_no_rows_and_deletes_none(intake: Intake, database: Database) -> None:
    await register(database, leases())
    await renew(database, intake.context.held_leases)
    held, at = dict.fromkeys(outbox.shards(), 1), outbox.shard("d/r")
    await write(intake, 1)
    (row,) = await database.autocommit(outbox.next_rows, held, 0, 10)
    former = held | {at: 0}

    await database.autocommit(outbox.delete, [row.id], former)

    assert await database.autocommit(outbox.next_rows, former, 0, 10) == []
    assert await database.autocommit(outbox.next_rows, held, 0, 10) == [row]
    await database.autocommit(outbox.delete, [row.id], held)
    assert await database.autocommit(outbox.next_rows, held, 0, 10) == []


async def test_a_request_that_stalled_on_its_way_publishes_no_old_state(
    settings: MakeSettings, database: Database, tmp_path: Path, cache: Path
) -> None:
    proxy = StallingProxy(marker=b"d/r")
    async with proxy.open(), Broker(tmp_path / "kafka", cache, {"daemon": proxy}) as kafka:
        mine = settings(topic_partitions=1, kafka_servers=f"127.0.0.1:{proxy.port}")
        await topics.create(kafka.bootstrap, mine.topic_prefix, 1, 1)
        daemon = Intake(mine, database)
        await register(database, leases())
        await renew(database, daemon.context.held_leases)
        await write(daemon, 1, 2)

        with anyio.fail_after(WITHIN_S):
            async with OutboxSinks(
                lambda id_: OutboxSink(mine.kafka_servers, transactional_id=id_, delivery_timeout_s=1.0), mine.topic_prefix
            ) as sinks:
                while not proxy.stalled.is_set() or sinks.connected:
                    await relay_all(daemon, sinks)
                await write(daemon, 3)
                while await published(daemon) != [1, 2, 3]:
                    await relay_all(daemon, sinks)
                await proxy.deliver()

        assert await published(daemon) == [1, 2, 3]
