"""Kafka is killed, frozen and restarted: acknowledged records stay, and clients reconnect."""

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import anyio
import pytest

from tests.integration.events.conftest import Fragile, beginning, read
from tests.waiting import until
from tidegate.events import Publisher, SyncPublisher, topics
from tidegate.events.sink import ProducerRecord, Sink, UndeliveredError
from tidegate.events.source import Source
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.wire.event import Kind


@pytest.fixture
def topic(topic_prefix: str) -> str:
    """The dataset topic of the Kafka to break."""
    return topics.name(topic_prefix, Kind.DATASET_UPDATED)


class Stream:
    """Sends numbers until told to stop, as the relay does; knows which were acknowledged."""

    def __init__(self, sink: Sink, topic: str) -> None:
        self.sink = sink
        self.topic = topic
        self.acknowledged: list[int] = []
        self.failures = 0
        self.going = True

    async def run(self) -> None:
        number = 0
        while self.going:
            batch = list(range(number, number + 50))
            while batch:
                batch = await self._send(batch)
            number += 50

    async def _send(self, batch: list[int]) -> list[int]:
        """What is left to be sent again."""
        try:
            answers = await self.sink.send_all([ProducerRecord(self.topic, b"%d" % (n % 7), b"%d" % n) for n in batch])
        except UndeliveredError as error:
            answers = error.acknowledged
            self.failures += 1
            await anyio.sleep(0.2)
        self.acknowledged += [n for n, arrived in zip(batch, answers, strict=True) if arrived]
        return [n for n, arrived in zip(batch, answers, strict=True) if not arrived]


async def acknowledged(stream: Stream, more: int) -> None:
    """Wait until this number of further messages were acknowledged."""
    target = len(stream.acknowledged) + more
    await until(lambda: len(stream.acknowledged) >= target, 90)


async def stored(fragile: Fragile, topic: str) -> list[tuple[bytes | None, int]]:
    async with Source(fragile.bootstrap) as source:
        source.assign(beginning(topic))
        bounds = await source.bounds(list(source.positions()))
        records = await read(source, sum(end for _, end in bounds.values()))
    return [(record.key, int(record.value or b"")) for record in records]


async def test_nothing_acknowledged_is_lost_when_kafka_is_killed(fragile: Fragile, topic: str) -> None:
    async with Sink(fragile.bootstrap, delivery_timeout_s=2.0) as sink, anyio.create_task_group() as group:
        stream = Stream(sink, topic)
        group.start_soon(stream.run)
        for _ in range(2):
            await acknowledged(stream, 1000)
            before = stream.failures
            await fragile.kill()
            await until(lambda: stream.failures > before, 90)  # noqa: B023 - awaited here
            await fragile.start()
        await acknowledged(stream, 1000)
        stream.going = False

    found = await stored(fragile, topic)
    firsts = {key: list(dict.fromkeys(n for k, n in found if k == key)) for key, _ in found}
    assert {number for _, number in found} == set(stream.acknowledged)
    assert all(numbers == sorted(numbers) for numbers in firsts.values())


async def test_a_frozen_kafka_is_reported_in_time_and_used_again_afterwards(fragile: Fragile, topic: str) -> None:
    messages = [ProducerRecord(topic, b"k", b"1")]

    async with Sink(fragile.bootstrap, delivery_timeout_s=2.0) as sink:
        await until_delivered(sink, messages)
        fragile.freeze()
        try:
            with anyio.fail_after(60), pytest.raises(UndeliveredError, match="did not answer in time") as caught:
                await sink.send_all(messages)
        finally:
            fragile.thaw()
        after = await until_delivered(sink, messages)

    assert (list(caught.value.acknowledged), after) == ([False], [True])


async def until_delivered(sink: Sink, messages: list[ProducerRecord]) -> list[bool]:
    with anyio.fail_after(60):
        while True:
            with suppress(UndeliveredError):
                return list(await sink.send_all(messages))


async def test_a_source_goes_on_where_it_was_after_an_outage(fragile: Fragile, topic: str) -> None:
    async with Sink(fragile.bootstrap) as sink, Source(fragile.bootstrap) as source:
        source.assign(beginning(topic))
        await sink.send_all([ProducerRecord(topic, b"k", b"%d" % n) for n in range(10)])
        before = await read(source, 10)
        await fragile.kill()
        during = await source.fetch(0.5, 10)
        await fragile.start()
        await until_delivered(sink, [ProducerRecord(topic, b"k", b"10")])
        after = await read(source, 1)

    values = [record.value for record in before + after]
    assert (values, during) == ([b"%d" % n for n in range(11)], {})


async def test_questions_during_an_outage_are_answered_with_an_error(fragile: Fragile, topic: str) -> None:
    async with Source(fragile.bootstrap) as source:
        source.assign(beginning(topic))
        await source.fetch(0.1, 10)
        source._timeout_s = 2.0
        await fragile.kill()
        with anyio.fail_after(60):
            with pytest.raises(UnavailableError):
                await source.bounds(list(source.positions()))
            with pytest.raises(UnavailableError):
                await source.lag()
            with pytest.raises(UnavailableError):
                await source.has_leader(topic)


async def test_advisory_commits_during_an_outage_are_silent(fragile: Fragile, topic: str) -> None:
    async with Source(fragile.bootstrap, group="g") as source:
        source.assign(beginning(topic))
        await source.fetch(0.1, 10)
        await fragile.kill()
        with anyio.fail_after(60):
            await source.commit(source.positions())


async def test_a_publisher_waits_for_kafka_to_come_back(fragile: Fragile, topic: str, topic_prefix: str) -> None:
    async with Publisher(fragile.bootstrap, source="test", topic_prefix=topic_prefix, timeout_s=60.0) as publisher:
        await publisher.dataset_updated("lake://a")
        await fragile.kill()
        async with anyio.create_task_group() as group:
            group.start_soon(publisher.dataset_updated, "lake://b")
            await anyio.sleep(0.5)
            await fragile.start()

    async with Source(fragile.bootstrap) as source:
        source.assign(beginning(topic))
        keys = {record.key for record in await read(source, 2)}
    assert keys == {b"lake://a", b"lake://b"}


async def test_a_publisher_gives_up_after_the_time_given(fragile: Fragile, topic: str, topic_prefix: str) -> None:
    async with Publisher(fragile.bootstrap, source="test", topic_prefix=topic_prefix, timeout_s=5.0) as publisher:
        await publisher.dataset_updated("lake://a")
        await fragile.kill()
        with anyio.fail_after(60), pytest.raises(UnavailableError, match=r"\(tried for 5 s\)"):
            await publisher.dataset_updated("lake://b")


async def test_a_publisher_is_closed_in_time_whatever_kafka_does(fragile: Fragile, topic: str, topic_prefix: str) -> None:
    publisher = SyncPublisher(fragile.bootstrap, source="test", topic_prefix=topic_prefix, timeout_s=300.0)
    await anyio.to_thread.run_sync(publisher.open)
    fragile.freeze()
    try:
        with ThreadPoolExecutor(1) as threads:
            under_way = threads.submit(publisher.dataset_updated, "lake://a")
            await until(lambda: publisher._publisher._calls, 60)
            started = anyio.current_time()
            await anyio.to_thread.run_sync(publisher.close, 1.0)
            took = anyio.current_time() - started
            with pytest.raises(UnavailableError, match="the sink is closed"):
                await anyio.to_thread.run_sync(under_way.result, 60)
    finally:
        fragile.thaw()

    assert took < 150, "so long a call waits for an answer"


async def test_a_caller_that_gives_up_hears_of_it_and_the_log_does_not(
    fragile: Fragile, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [ProducerRecord(topic, b"key-%d" % number, b"x") for number in range(20)]
    async with Sink(fragile.bootstrap, delivery_timeout_s=2.0) as sink:
        await until_delivered(sink, messages)
        fragile.freeze()
        try:
            with pytest.raises(UndeliveredError):
                await sink.send_all(messages)
        finally:
            fragile.thaw()
    gc.collect()

    assert "never retrieved" not in caplog.text
