"""A partition that takes nothing: its rows wait in their order, those of others do not, and it is named."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import ClassVar

import anyio
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.integration.ingest.intake import LOOK_EVERY_S, WITHIN_S, Intake
from tests.servers import delete_topics
from tests.transactions import transaction
from tidegate.daemon.duties import outbox_sinks, relay
from tidegate.daemon.duties.outbox_sinks import OutboxSinks
from tidegate.daemon.leases import register, renew
from tidegate.daemon.outage import ReportedOutages
from tidegate.events import outbox_sink, topics
from tidegate.events.outbox_sink import OutboxSink
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import outbox
from tidegate.schemas.wire.event import Kind

KEY, OTHER_KEY = "d/r", "e/r"
WRITE = """
    INSERT INTO outbox (shard, kind, key, event_id, time, payload)
    SELECT $1, $2, $3, $3 || '/' || seq, now(), convert_to(json_build_object('seq', seq)::text, 'UTF8')
    FROM unnest($4::integer[]) AS seq
"""
REFUSING, ANSWERING = Kind.DAG_RUN_STATE, Kind.DATASET_UPDATED


class Sink(OutboxSink):
    """As in a cluster in which the brokers of some transactional ids are away."""

    without_broker: ClassVar[set[str]] = set()

    async def connect(self) -> None:
        if self._transactional_id in self.without_broker:
            raise UnavailableError("no coordinator")
        await super().connect()


class Relay:
    """The relay of a daemon that holds all shards, round by round."""

    def __init__(self, intake: Intake, sinks: OutboxSinks) -> None:
        self._intake = intake
        self._sinks = sinks
        self._silent = ReportedOutages(intake.context.outages, "silent ")

    async def write(self, kind: Kind, *seqs: int, key: str = KEY) -> None:
        async with transaction(self._intake.settings.postgres_dsn) as db:
            await db.execute(WRITE, outbox.shard(key), kind, key, list(seqs))

    async def published(self, kind: Kind) -> list[int]:
        return [json.loads(record.value or b"")["seq"] for record in await self._intake.published(kind)]

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Relay until something holds."""
        with anyio.fail_after(WITHIN_S):
            while not await holds():
                await renew(self._intake.database, self._intake.context.held_leases)
                while await relay._unless_fenced(self._intake.context, self._sinks, self._intake.watermark, self._silent):
                    pass
                await anyio.sleep(LOOK_EVERY_S)

    async def until_published(self, kind: Kind, *seqs: int) -> None:
        async def holds() -> bool:
            return await self.published(kind) == list(seqs)

        await self.until(holds)

    async def until_away(self, *names: str) -> None:
        async def holds() -> bool:
            return self._intake.context.outages.away.keys() == set(names)

        await self.until(holds)

    async def until_rested(self) -> None:
        """Until no partition rests; no row is read meanwhile."""
        with anyio.fail_after(WITHIN_S):
            while self._sinks.resting:
                await anyio.sleep(LOOK_EVERY_S)
                await self._sinks.settle()

    async def set_largest(self, size: int) -> None:
        """Let the refusing topic take batches of this many bytes at most."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._intake.settings.kafka_servers)
        await admin.start()
        config = {"max.message.bytes": str(size)}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self._intake.settings.topic(REFUSING), config)])
        await admin.close()


@pytest.fixture
async def daemon(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relay]:
    monkeypatch.setattr(outbox_sink, "PATIENCE_S", 0.3)
    monkeypatch.setattr(outbox_sink, "REST_S", 0.3)
    monkeypatch.setattr(outbox_sinks, "REST_S", 0.3)
    monkeypatch.setattr(relay, "MAX_BATCH", 3)
    servers = intake.settings.kafka_servers
    await register(intake.database, relay.leases())
    async with OutboxSinks(
        lambda id_: Sink(servers, transactional_id=id_, delivery_timeout_s=20.0), intake.settings.topic_prefix
    ) as sinks:
        yield Relay(intake, sinks)


async def test_rows_of_a_partition_that_does_not_answer_delay_no_others_and_keep_their_order(
    daemon: Relay, intake: Intake
) -> None:
    partition = f"silent partition {intake.settings.topic(REFUSING)}/0"
    await daemon.set_largest(1)
    await daemon.write(REFUSING, *range(1, 9))
    await daemon.write(ANSWERING, 1)
    await daemon.until_published(ANSWERING, 1)
    await daemon.write(REFUSING, 9, 10)
    await daemon.until_away(partition)
    reason = intake.context.outages.away[partition].error
    await daemon.write(ANSWERING, 2)
    await daemon.until_published(ANSWERING, 1, 2)
    meanwhile = await daemon.published(REFUSING)
    await daemon.set_largest(1 << 20)
    await daemon.write(REFUSING, 11)
    await daemon.until_published(REFUSING, *range(1, 12))
    await daemon.until_away()

    assert meanwhile == []
    assert "MessageSizeTooLarge" in reason
    assert await intake.rows("SELECT id FROM outbox") == []


async def test_rows_of_others_keep_their_order_beside_rows_that_are_read_again(daemon: Relay, intake: Intake) -> None:
    """The oldest row is committed last, after the rows of a partition that does not answer were read."""
    await daemon.set_largest(1)
    async with transaction(intake.settings.postgres_dsn) as late:
        await late.execute(WRITE, outbox.shard(KEY), ANSWERING, KEY, [1])
        await daemon.write(REFUSING, 1)
        await daemon.until_away(f"silent partition {intake.settings.topic(REFUSING)}/0")
    await daemon.write(ANSWERING, 2)
    await daemon.until_rested()

    await daemon.until_published(ANSWERING, 1, 2)


async def test_rows_of_a_topic_that_was_deleted_delay_no_others_and_keep_their_order(daemon: Relay, intake: Intake) -> None:
    mine = intake.settings
    topic, name = mine.topic(REFUSING), f"silent topic {mine.topic(REFUSING)}"
    await delete_topics(mine.kafka_servers, topic)
    await daemon.write(REFUSING, *range(1, 5))
    await daemon.write(ANSWERING, 1)
    await daemon.until_published(ANSWERING, 1)
    await daemon.until_away(name)
    reason = intake.context.outages.away[name].error
    await daemon.write(REFUSING, 5)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    await daemon.until_published(REFUSING, *range(1, 6))
    await daemon.until_away()

    assert "does not have the topic; create it with `tidegate topics create`" in reason
    assert await intake.rows("SELECT id FROM outbox") == []


async def test_rows_of_a_shard_whose_sink_cannot_connect_delay_no_others(
    daemon: Relay, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, seqs = outbox.shard(KEY), count(1)
    monkeypatch.setattr(Sink, "without_broker", {f"{intake.settings.topic_prefix}outbox-{number}"})
    await daemon.write(ANSWERING, next(seqs), key=OTHER_KEY)
    await daemon.until_published(ANSWERING, 1)
    await daemon.write(REFUSING, 1, 2)

    async def is_named() -> bool:
        await daemon.write(ANSWERING, next(seqs), key=OTHER_KEY)
        return f"silent shard {number}" in intake.context.outages.away

    with pytest.raises(UnavailableError, match="no coordinator"):
        await daemon.until(is_named)  # it may be Kafka
    await daemon.write(REFUSING, 3)
    await daemon.until(is_named)
    others, meanwhile = await daemon.published(ANSWERING), await daemon.published(REFUSING)
    Sink.without_broker.clear()
    await daemon.until_published(REFUSING, 1, 2, 3)
    await daemon.until_away()

    assert (others, meanwhile) == (list(range(1, others[-1] + 1)), [])
    assert others[-1] > 2
    assert await intake.rows("SELECT id FROM outbox") == []
