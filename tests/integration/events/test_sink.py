"""Messages are acknowledged in order, or reported as undelivered."""

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.events.conftest import PARTITIONS, beginning, read
from tidegate.events.sink import MAX_SENT_BYTES, ProducerRecord, Sink, UndeliveredError
from tidegate.events.source import Record, Source
from tidegate.schemas.error import RejectedError, UnavailableError


async def everything(kafka: str, topic: str) -> list[Record]:
    async with Source(kafka) as source:
        source.assign(beginning(topic))
        bounds = await source.bounds(list(beginning(topic)))
        return await read(source, sum(end for _, end in bounds.values()))


def numbered(topic: str, count: int, keys: int = 5, size: int = 0) -> Sequence[ProducerRecord]:
    return [ProducerRecord(topic, b"key-%d" % (n % keys), b"%d" % n + b" " * size, [("n", b"%d" % n)]) for n in range(count)]


async def test_all_messages_are_acknowledged_and_stored(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        acknowledged = await sink.send_all(numbered(topic, 100))

    records = await everything(kafka, topic)
    assert (list(acknowledged), {int(record.value or b"") for record in records}) == ([True] * 100, set(range(100)))


async def test_a_message_is_stored_whole(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.send_all([ProducerRecord(topic, b"k", b"v", [("a", b"1"), ("b", b"\xff")])])

    (record,) = await everything(kafka, topic)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"1"), ("b", b"\xff")))


async def test_nothing_to_send_is_nothing_sent(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        acknowledged = await sink.send_all([])

    assert (list(acknowledged), await everything(kafka, topic)) == ([], [])


async def test_closed_at_any_moment_after_connecting_it_closes(kafka: str) -> None:
    for yields in range(30):
        async with Sink(kafka) as sink:
            await sink.connect()
            for _ in range(yields // 3):
                await anyio.lowlevel.checkpoint()


async def test_messages_of_a_key_keep_their_order_over_many_batches(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.send_all(numbered(topic, 600, keys=2, size=2000))

    records = await everything(kafka, topic)
    for key in (b"key-0", b"key-1"):
        mine = [int(record.value or b"") for record in records if record.key == key]
        assert (mine, len(mine)) == (sorted(mine), 300)


async def test_a_key_goes_where_other_clients_put_it(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    keys = [b"lake://%d" % number for number in range(50)]
    theirs = {key: (await producer.send_and_wait(topic, b"", key=key)).partition for key in keys}

    async with Sink(kafka) as sink:
        await sink.send_all([ProducerRecord(topic, key, b"ours") for key in keys])

    ours = {record.key: record.partition for record in await everything(kafka, topic) if record.value == b"ours"}
    assert ours == theirs


async def test_messages_without_a_key_spread_over_the_partitions(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.send_all([ProducerRecord(topic, None, b"v")] * PARTITIONS)

    assert {record.partition for record in await everything(kafka, topic)} == {0, 1, 2}


async def test_messages_of_several_topics_travel_together(kafka: str, topic: str, topic_prefix: str) -> None:
    other = f"{topic_prefix}task-finished"

    async with Sink(kafka) as sink:
        await sink.send_all([ProducerRecord(topic, b"k", b"here"), ProducerRecord(other, b"k", b"there")])

    found = [(await everything(kafka, name))[0].value for name in (topic, other)]
    assert found == [b"here", b"there"]


async def test_the_largest_message_there_may_be_is_taken(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.send_all([ProducerRecord(topic, b"k", b"x" * (MAX_SENT_BYTES - 1))])

    (record,) = await everything(kafka, topic)
    assert len(record.value or b"") == MAX_SENT_BYTES - 1


async def test_of_a_larger_message_and_its_company_nothing_is_sent(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        with pytest.raises(RejectedError, match=f"a record of {MAX_SENT_BYTES + 1} bytes for {topic}"):
            await sink.send_all([ProducerRecord(topic, b"k", b"small"), ProducerRecord(topic, b"k", b"x" * MAX_SENT_BYTES)])

    assert await everything(kafka, topic) == []


async def test_many_callers_at_once_are_all_served(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink, anyio.create_task_group() as group:
        for message in numbered(topic, 300):
            group.start_soon(sink.send_all, [message])

    assert {int(record.value or b"") for record in await everything(kafka, topic)} == set(range(300))


async def test_a_caller_that_gives_up_does_not_hurt_the_others(kafka: str, topic: str) -> None:
    async def impatient(sink: Sink, message: ProducerRecord) -> None:
        with anyio.move_on_after(0):
            await sink.send_all([message])

    async with Sink(kafka) as sink:
        await sink.connect()
        async with anyio.create_task_group() as group:
            for number, message in enumerate(numbered(topic, 100)):
                group.start_soon(impatient if number % 2 else sink.send_all, *([sink, message] if number % 2 else [[message]]))

    stored = {int(record.value or b"") for record in await everything(kafka, topic)}
    assert stored >= set(range(0, 100, 2))


async def test_a_cancelled_call_leaves_the_sink_usable(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.connect()
        async with anyio.create_task_group() as group:
            group.start_soon(sink.send_all, numbered(topic, 5000))
            await anyio.sleep(0.005)
            group.cancel_scope.cancel()
        acknowledged = await sink.send_all([ProducerRecord(topic, b"k", b"999999")])

    stored = [int(record.value or b"") for record in await everything(kafka, topic)]
    assert (list(acknowledged), 999999 in stored) == ([True], True)


async def test_a_missing_topic_is_reported(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        await sink.connect()
        sink._delivery_timeout_s = 2.0
        with pytest.raises(UndeliveredError, match=f"has no topic {topic}-not; create it with") as caught:
            await sink.send_all([ProducerRecord(f"{topic}-not", b"k", b"v")])

    assert list(caught.value.acknowledged) == [False]


async def test_an_unavailable_kafka_is_reported_by_send() -> None:
    async with Sink("127.0.0.1:1", delivery_timeout_s=1.0) as sink:
        with pytest.raises(UndeliveredError, match=r"Kafka does not answer at 127\.0\.0\.1:1") as caught:
            await sink.send_all(numbered("t", 2))

    assert list(caught.value.acknowledged) == [False, False]


async def test_a_closed_sink_refuses_messages(kafka: str, topic: str) -> None:
    async with Sink(kafka) as sink:
        pass

    with pytest.raises(UnavailableError, match="the sink is closed"):
        await sink.send_all(numbered(topic, 1))
