"""The Kafka that standalone starts."""

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests import formatted_storage
from tests.servers import StartKafka
from tidegate.daemon.standalone.kafka import Kafka

LARGE = 3 * 1024 * 1024


@pytest.fixture(autouse=True)
def formatted_by_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kafka, "_format", formatted_storage.FORMAT)


async def create_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()


async def publish(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, max_request_size=2 * LARGE) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


async def topics(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    names: list[str] = await admin.list_topics()
    await admin.close()
    return names


async def test_acknowledged_records_survive_a_kill(own_kafka: StartKafka) -> None:
    server = await own_kafka()
    bootstrap = server.bootstrap
    await create_topic(bootstrap, "kept")
    await publish(bootstrap, "kept", b"one", b"two")

    await server.kill()
    await server.start()

    assert await read(bootstrap, "kept", 2) == [b"one", b"two"]


async def test_its_data_are_found_by_the_next_one_on_the_directory(own_kafka: StartKafka, cache: Path) -> None:
    server = await own_kafka()
    await create_topic(server.bootstrap, "kept")
    await server.stop()

    async with Kafka(server.home, cache) as again:
        assert await topics(again.bootstrap) == ["kept"]


async def test_a_record_of_three_megabytes_passes(kafka: str, topic_prefix: str) -> None:
    await create_topic(kafka, f"{topic_prefix}large")

    await publish(kafka, f"{topic_prefix}large", b"x" * LARGE)

    async with AIOKafkaConsumer(f"{topic_prefix}large", bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        assert len((await consumer.getone()).value) == LARGE


async def test_a_topic_is_not_created_by_its_use(kafka: str, topic_prefix: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        await producer.client.add_topic(f"{topic_prefix}unknown")

    assert f"{topic_prefix}unknown" not in await topics(kafka)


async def test_storage_that_was_half_formatted_is_formatted_again(tmp_path: Path, cache: Path) -> None:
    half = tmp_path / "data.unfinished"
    half.mkdir()
    (half / "meta.properties").write_text("version=1\n")

    async with Kafka(tmp_path, cache) as server:
        assert await topics(server.bootstrap) == []
