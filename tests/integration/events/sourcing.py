"""Records to read, and positions of partitions."""

from aiokafka import AIOKafkaProducer

from tidegate.events.source import Record


async def fill(producer: AIOKafkaProducer, topic: str, count: int, partition: int = 0) -> None:
    """Values 0, 1, 2 …, one batch each."""
    for number in range(count):
        await producer.send_and_wait(topic, b"%d" % number, partition=partition)


def values(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]
