"""Transactions, lag and committed offsets."""

from collections.abc import Mapping

import anyio
from aiokafka import AIOKafkaProducer

from tests.integration.events.conftest import read
from tests.integration.events.sourcing import fill
from tidegate.events.offsets import Stored
from tidegate.events.source import Bounds, Partition, Source


async def transactions(kafka: str, topic: str) -> None:
    """0 committed, 1 aborted, 2 committed; a marker of Kafka's own follows each of them."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=topic) as producer:
        for number, commits in enumerate((True, False, True)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            await (producer.commit_transaction() if commits else producer.abort_transaction())


async def test_only_committed_transactions_are_read(kafka: str, topic: str) -> None:
    await transactions(kafka, topic)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 0})
        records = await read(source, 2)

    assert [(record.offset, record.value) for record in records] == [(0, b"0"), (4, b"2")]


async def test_markers_at_the_end_of_the_log_are_no_lag(kafka: str, topic: str) -> None:
    await transactions(kafka, topic)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 0})
        records = await read(source, 2)
        with anyio.fail_after(60):
            while (await source.lag())[Partition(topic, 0)]:
                await source.fetch(0.1, 10)
        bounds = await source.bounds([Partition(topic, 0)])
        known = source.known_lag({Partition(topic, 0): records[-1].offset + 1})

    assert known == {Partition(topic, 0): 0}
    assert (records[-1].offset, bounds[Partition(topic, 0)]) == (4, Bounds(0, 6))


async def test_reading_goes_on_from_a_position_at_a_marker(kafka: str, topic: str) -> None:
    await transactions(kafka, topic)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 1})
        records = await read(source, 1)

    assert [record.offset for record in records] == [4]


async def test_lag_counts_what_was_not_read(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 5)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 1, Partition(topic, 1): 0})
        await read(source, 1)
        lag = await source.lag()
        known = source.known_lag({Partition(topic, 0): 1})

    assert lag == {Partition(topic, 0): 3, Partition(topic, 1): 0}
    assert known == {Partition(topic, 0): 4}, "the record that was read is not handled yet"


async def committed(kafka: str, group: str | None, partitions: list[Partition]) -> Mapping[Partition, Stored]:
    async with Source(kafka, group=group) as source:
        return await source.committed(partitions)


async def test_committed_offsets_are_stored_under_the_group(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Source(kafka, group=f"{topic_prefix}a") as source:
        await source.committed([Partition(topic, 0)])  # waits until Kafka has a place for them
        await source.commit({Partition(topic, 0): 5}, "by a test")

    found = await committed(kafka, f"{topic_prefix}a", [Partition(topic, 0), Partition(topic, 1)])
    elsewhere = await committed(kafka, f"{topic_prefix}b", [Partition(topic, 0)])
    assert (found, elsewhere) == ({Partition(topic, 0): (5, "by a test")}, {})


async def test_offsets_are_committed_at_intervals(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Source(kafka, group=topic_prefix) as source:
        await source.committed([Partition(topic, 0)])
        for offset in (1, 2, 3):
            await source.commit({Partition(topic, 0): offset})

    assert await committed(kafka, topic_prefix, [Partition(topic, 0)]) == {Partition(topic, 0): (1, "")}
