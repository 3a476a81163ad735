"""Records are read once, from the positions of the caller."""

import json
from datetime import UTC, datetime

import anyio
import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.events.conftest import PARTITIONS, beginning, read
from tests.integration.events.sourcing import Undecodable, fill, send, values
from tidegate.events import cloudevents
from tidegate.events.source import Partition, Record, Source
from tidegate.schemas.error import RejectedError, UnavailableError
from tidegate.schemas.wire.envelope import Envelope, decode
from tidegate.schemas.wire.event import DatasetUpdated, Kind, Rejection

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
ENVELOPE = Envelope(source="test", id="7", time=NOON)
EVENT = DatasetUpdated(uri="lake://a", extra={"x": 1})
DATA = b'{"uri":"lake://a","extra":{"x":1}}'


async def test_a_record_arrives_whole(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await producer.send_and_wait(topic, b"v", key=b"k", partition=1, timestamp_ms=NOON_MS, headers=[("h", b"\xff")])

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        (record,) = await read(source, 1)

    assert record == Record(topic, 1, 0, NOON, b"k", (("h", b"\xff"),), b"v")


async def test_a_record_may_have_neither_key_nor_value(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await producer.send_and_wait(topic, None, key=b"k", partition=0)
    await producer.send_and_wait(topic, b"v", partition=0)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        records = await read(source, 2)

    assert [(record.key, record.value) for record in records] == [(b"k", None), (None, b"v")]


MODES = [
    pytest.param(
        cloudevents.headers(Kind.DATASET_UPDATED, event_id="7", source="test", time=NOON), DATA, ENVELOPE, id="binary"
    ),
    pytest.param(
        [("content-type", b"application/cloudevents+json")],
        json.dumps({
            "specversion": "1.0", "type": "tidegate.dataset-updated.v1", "id": "7", "source": "test",
            "time": "2026-03-29T12:00:00Z", "data": json.loads(DATA),
        }).encode(),
        ENVELOPE,
        id="structured",
    ),
    pytest.param([], DATA, Envelope(source=None, id=None, time=None), id="bare"),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "value", "envelope"), MODES)
async def test_events_are_read_in_every_mode(
    kafka: str,
    topic: str,
    producer: AIOKafkaProducer,
    headers: list[tuple[str, bytes]],
    value: bytes,
    envelope: Envelope,
) -> None:
    await producer.send_and_wait(topic, value, headers=headers)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        (record,) = await read(source, 1)

    assert decode(Kind.DATASET_UPDATED, record.headers, record.value) == (envelope, EVENT)


async def test_reading_starts_at_the_position(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 5)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 3})
        records = await read(source, 2)

    assert values(records) == [3, 4]


async def test_records_of_a_batch_that_lie_below_the_position_are_dropped(
    kafka: str, topic: str, producer: AIOKafkaProducer
) -> None:
    batch = producer.create_batch()
    for number in range(5):
        batch.append(key=None, value=b"%d" % number, timestamp=None)
    await (await producer.send_batch(batch, topic, partition=0))

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 3})
        records = await read(source, 2)

    assert values(records) == [3, 4]


async def test_no_more_records_come_than_asked_for(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 5)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        sizes = [len(await read(source, size)) for size in (2, 3)]

    assert sizes == [2, 3]


async def test_a_header_without_a_value_has_an_empty_one(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await send(producer, topic, [("h", None)])

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        (record,) = await read(source, 1)

    assert record.headers == (("h", b""),)


@pytest.mark.parametrize("compression", [None, "gzip", "lz4", "snappy", "zstd"])
async def test_a_header_key_that_is_not_utf8_stops_no_partition(kafka: str, topic: str, compression: str | None) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka, compression_type=compression) as producer:
        await fill(producer, topic, 2)
        await send(producer, topic, [("good", b"1")], [(Undecodable("bad"), b"2"), ("none", None)], [(Undecodable("bad"), None)])
        await producer.send_and_wait(topic, b"after", partition=0)
        await producer.send_and_wait(topic, b"beside", partition=1)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        records = sorted(await read(source, 7), key=lambda record: (record.partition, record.offset))
        rest = await source.fetch(0.05, 10)

    assert [(record.offset, record.value) for record in records[2:]] == [
        (2, b"0"), (3, b"1"), (4, b"2"), (5, b"after"), (0, b"beside"),
    ]  # fmt: skip
    assert [record.headers for record in records[2:5]] == [
        (("good", b"1"),),
        ((r"b\xffd", b"2"), ("none", b"")),
        ((r"b\xffd", b""),),
    ]
    assert rest == {}


@pytest.mark.parametrize("compression", ["lz4", "snappy", "zstd"])
async def test_records_are_read_in_every_compression(kafka: str, topic: str, compression: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka, compression_type=compression) as producer:
        await fill(producer, topic, 2)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        records = await read(source, 2)

    assert values(records) == [0, 1]


async def test_a_fetch_without_records_returns_after_the_timeout(kafka: str, topic: str) -> None:
    async with Source(kafka) as source:
        source.assign(beginning(topic))
        fetched = await source.fetch(0.05, 10)

    assert fetched == {}


async def test_without_partitions_nothing_comes(kafka: str, topic: str) -> None:
    async with Source(kafka) as source:
        source.assign({})
        fetched = await source.fetch(0.05, 10)

    assert (fetched, source.positions()) == ({}, {})


async def test_records_written_while_waiting_arrive(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    async with Source(kafka) as source, anyio.create_task_group() as group:
        source.assign(beginning(topic))
        await source.fetch(0.1, 10)
        group.start_soon(fill, producer, topic, 1)
        records = await read(source, 1)

    assert values(records) == [0]


async def test_a_new_assignment_replaces_the_old_one(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    for partition in range(PARTITIONS):
        await fill(producer, topic, 2, partition)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        await read(source, 1)
        source.assign({Partition(topic, 2): 1})
        records = await read(source, 1)
        rest = await source.fetch(0.2, 10)

    assert ([(record.partition, record.offset) for record in records], rest) == ([(2, 1)], {})


async def test_a_cancelled_fetch_loses_nothing(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 0})
        received: list[int] = []
        within_s = 0.003
        async with anyio.create_task_group() as group:
            group.start_soon(fill, producer, topic, 200)
            while len(received) < 200:
                with anyio.move_on_after(within_s) as limit:
                    received += values(await read(source, 1))
                within_s = 1.5 * within_s if limit.cancelled_caught else 0.003  # a slow machine gets on, too

    assert received == list(range(200))


async def test_what_was_taken_back_comes_again(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 3)

    async with Source(kafka) as source:
        source.assign(beginning(topic))
        first = await read(source, 3)
        source.assign(beginning(topic))
        second = await read(source, 3)

    assert first == second


async def test_partitions_of_a_topic_are_known(kafka: str, topic: str) -> None:
    async with Source(kafka) as source:
        known = await source.has_leader(topic)

    assert known == {0: True, 1: True, 2: True}


async def test_a_topic_that_is_not_there_has_no_partitions(kafka: str, topic: str) -> None:
    async with Source(kafka) as source:
        known = await source.has_leader(f"{topic}-not")

    assert known == {}


async def test_a_record_of_two_megabytes_is_seen_and_then_refused(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    large = b'{"uri":"lake://a","extra":{"x":"%s"}}' % (b"x" * 2_000_000)
    await producer.send_and_wait(topic, large, partition=0)
    await producer.send_and_wait(topic, DATA, partition=0)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 0})
        first, second = await read(source, 2)

    with pytest.raises(RejectedError, match="2000035 bytes; at most 1048576 are accepted") as caught:
        decode(Kind.DATASET_UPDATED, first.headers, first.value)
    assert (caught.value.reason, second.value) == (Rejection.TOO_LARGE, DATA)


@pytest.mark.parametrize(
    ("given", "read_as"), [(0, datetime(1970, 1, 1, tzinfo=UTC)), (-(2**40), datetime(1970, 1, 1, tzinfo=UTC))]
)
async def test_any_time_a_producer_writes_can_be_read(
    kafka: str, topic: str, producer: AIOKafkaProducer, given: int, read_as: datetime
) -> None:
    await producer.send_and_wait(topic, b"v", partition=0, timestamp_ms=given)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 0})
        (record,) = await read(source, 1)

    assert record.timestamp == read_as


async def test_an_unavailable_kafka_is_reported_in_one_sentence() -> None:
    with pytest.raises(UnavailableError, match=r"^Kafka does not answer at 127\.0\.0\.1:1; check that it runs"):
        async with Source("127.0.0.1:1"):
            pass
