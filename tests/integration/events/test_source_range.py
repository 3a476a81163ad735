"""Positions that cannot be read: they are outside the log, or their records cannot be decoded."""

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition, codec
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.integration.events.conftest import PARTITIONS, beginning, read
from tests.integration.events.sourcing import fill, values
from tidegate.daemon.restore.log_reading import records
from tidegate.events.source import Bounds, OffsetOutOfRangeError, Partition, Source, UnreadableBatchError


async def delete_before(kafka: str, partition: Partition, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.delete_records({TopicPartition(*partition): RecordsToDelete(offset)})
    await admin.close()


async def test_a_position_beyond_the_log_is_reported_with_its_bounds(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 2)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 9})
        with pytest.raises(OffsetOutOfRangeError, match="the next offset is 9, but the log holds 0 to 2") as caught:
            await source.fetch(20.0, 10)

    error = caught.value
    assert (error.partition, error.position, error.bounds) == (Partition(topic, 0), 9, Bounds(0, 2))


async def test_a_position_of_expired_records_is_reported_with_its_bounds(
    kafka: str, topic: str, producer: AIOKafkaProducer
) -> None:
    partition = Partition(topic, 0)
    await fill(producer, topic, 5)
    await delete_before(kafka, partition, 3)

    async with Source(kafka) as source:
        source.assign({partition: 1})
        with pytest.raises(OffsetOutOfRangeError) as caught:
            await source.fetch(20.0, 10)

    assert (caught.value.position, caught.value.bounds) == (1, Bounds(3, 5))


async def test_a_partition_out_of_range_does_not_stop_the_others(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 9, Partition(topic, 1): 0})
        with pytest.raises(OffsetOutOfRangeError):
            await source.fetch(20.0, 10)
        await fill(producer, topic, 3, partition=1)
        records = await read(source, 3)
        left = source.positions()

    assert (values(records), left) == ([0, 1, 2], {Partition(topic, 1): 3})


async def test_each_partition_out_of_range_is_reported_once(kafka: str, topic: str) -> None:
    told = []

    async with Source(kafka) as source:
        source.assign(dict.fromkeys(beginning(topic), 9))
        for _ in range(PARTITIONS):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await source.fetch(20.0, 10)
            told.append(caught.value.partition.partition)
        after = await source.fetch(0.3, 10)

    assert (sorted(told), after) == ([0, 1, 2], {})


async def test_a_partition_put_right_is_read_again(kafka: str, topic: str, producer: AIOKafkaProducer) -> None:
    await fill(producer, topic, 2)

    async with Source(kafka) as source:
        source.assign({Partition(topic, 0): 9})
        with pytest.raises(OffsetOutOfRangeError):
            await source.fetch(20.0, 10)
        source.assign({Partition(topic, 0): 1})
        found = await read(source, 1)

    assert values(found) == [1]


async def test_a_batch_that_cannot_be_decoded_is_told_with_its_place_and_the_others_are_read(
    kafka: str, topic: str, producer: AIOKafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose checksum is wrong, which no broker accepts."""
    partition = Partition(topic, 0)
    await fill(producer, topic, 1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, compression_type="lz4") as compressing:
        await fill(compressing, topic, 1)
    await fill(producer, topic, 2)
    monkeypatch.setattr(codec, "has_lz4", lambda: False)

    async with Source(kafka) as source:
        source.assign({partition: 0, Partition(topic, 1): 0})
        before = await read(source, 1)
        with pytest.raises(UnreadableBatchError, match=r"the records from 1 to 1 cannot be decoded: .*lz4") as caught:
            await source.fetch(20.0, 10)
        await fill(producer, topic, 3, partition=1)
        beside = await read(source, 3)
        source.assign({partition: caught.value.next_offset})
        behind = await read(source, 2)

    assert [values(records) for records in (before, beside, behind)] == [[0], [0, 1, 2], [0, 1]]
    assert (caught.value.position, caught.value.bounds) == (1, Bounds(0, 4))


async def test_a_settled_restore_passes_over_what_cannot_be_decoded(
    kafka: str, topic: str, producer: AIOKafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Partition(topic, 0), Partition(topic, 1)
    await fill(producer, topic, 1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, compression_type="lz4") as compressing:
        for number in (0, 1):
            await fill(compressing, topic, 1, partition=number)
    await fill(producer, topic, 2)
    monkeypatch.setattr(codec, "has_lz4", lambda: False)

    async with Source(kafka) as source:
        bounds = await source.bounds([one, other])
        found = [record async for batch in records(source, {}, bounds) for record in batch]

    assert sorted((record.partition, record.offset) for record in found) == [(0, 0), (0, 2), (0, 3)]
