"""Records to read, and positions of partitions."""

from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from tidegate.events.source import Record


async def fill(producer: AIOKafkaProducer, topic: str, count: int, partition: int = 0) -> None:
    """Values 0, 1, 2 …, one batch each."""
    for number in range(count):
        await producer.send_and_wait(topic, b"%d" % number, partition=partition)


class Undecodable(str):
    """A header key that is not UTF-8 on the wire."""

    def encode(self, *_: str) -> bytes:
        return b"b\xffd"


async def send(producer: AIOKafkaProducer, topic: str, *headers: Sequence[tuple[str, bytes | None]]) -> None:
    """One batch with a record for each list of headers, values 0, 1, 2 …; keys may be `Undecodable`, and values null."""
    batch = producer.create_batch()
    compression = producer._message_accumulator._compression_type
    batch._builder = _DefaultRecordBatchBuilderPy(
        2, compression, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=100_000
    )
    for number, each in enumerate(headers):
        batch.append(key=None, value=b"%d" % number, timestamp=None, headers=each)
    await (await producer.send_batch(batch, topic, partition=0))


def values(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]
