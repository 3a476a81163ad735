"""Topics are created once and left unchanged afterwards."""

from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.client import AIOKafkaClient

from tidegate.events import connection, topics
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.wire.event import Kind


async def test_all_topics_are_made(kafka: str, topic_prefix: str) -> None:
    created = await topics.create(kafka, topic_prefix, 3, 1)

    assert created == [topics.Created(f"{topic_prefix}{kind}", existed=False, partitions=3, wanted=3) for kind in Kind]


async def test_made_again_they_are_as_they_were(kafka: str, topic_prefix: str) -> None:
    await topics.create(kafka, topic_prefix, 3, 1)

    again = await topics.create(kafka, topic_prefix, 5, 1)

    assert {(topic.existed, topic.partitions, topic.differs) for topic in again} == {(True, 3, True)}


async def test_a_broker_that_tells_of_no_controller_yet_is_waited_for(
    kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it may just after its start."""
    start, update, asked = connection.start, AIOKafkaClient.force_metadata_update, list[AIOKafkaClient]()

    async def start_without_controller(client: AIOKafkaAdminClient, *arguments: Any) -> None:
        await start(client, *arguments)
        connection.network_client(client).cluster.controller = None

    async def update_second_time(client: AIOKafkaClient) -> None:
        asked.append(client)
        if len(asked) > 1:
            await update(client)

    monkeypatch.setattr(connection, "start", start_without_controller)
    monkeypatch.setattr(AIOKafkaClient, "force_metadata_update", update_second_time)

    created = await topics.create(kafka, topic_prefix, 1, 1)

    assert [topic.existed for topic in created] == [False] * len(Kind)


async def config_of(kafka: str, topic: str) -> dict[str, str]:
    """As soon as the broker that is asked knows the topic: brokers learn of a new one, one after the other."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    config: dict[str, str] = {}
    while not config:
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        config = {entry[0]: entry[1] for entry in answers[0].resources[0][4]}
    await admin.close()
    return config


async def test_every_move_of_tasks_is_kept_for_a_week(kafka: str, topic_prefix: str) -> None:
    await topics.create(kafka, topic_prefix, 1, 1)

    config = await config_of(kafka, topics.name(topic_prefix, Kind.TASK_STATE))

    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "604800000")


async def test_every_move_of_runs_is_kept_for_a_week_and_the_last_one_for_good(kafka: str, topic_prefix: str) -> None:
    await topics.create(kafka, topic_prefix, 1, 1)

    config = await config_of(kafka, topics.name(topic_prefix, Kind.DAG_RUN_STATE))

    assert (config["cleanup.policy"], config["min.compaction.lag.ms"]) == ("compact", "604800000")


async def test_how_many_copies_must_be_written_is_as_asked_for(kafka: str, topic_prefix: str) -> None:
    await topics.create(kafka, topic_prefix, 1, 1, min_in_sync=1)

    config = await config_of(kafka, topics.name(topic_prefix, Kind.DATASET_UPDATED))

    assert config["min.insync.replicas"] == "1"


async def test_more_copies_in_sync_than_there_are_is_refused(kafka: str, topic_prefix: str) -> None:
    with pytest.raises(RequestError, match="2 replicas can never be in sync: there are 1; set min_in_sync to 1 at most"):
        await topics.create(kafka, topic_prefix, 1, 1, min_in_sync=2)


async def test_more_replicas_than_brokers_are_refused_with_kafkas_reason(kafka: str, topic_prefix: str) -> None:
    with pytest.raises(RequestError, match=r"Kafka refused to create test-\w+\.dag-file-changed: .*replicat"):
        await topics.create(kafka, topic_prefix, 1, 3)


async def test_an_unavailable_kafka_is_reported_in_one_sentence() -> None:
    with pytest.raises(UnavailableError, match=r"^Kafka does not answer at 127\.0\.0\.1:1; check that it runs"):
        await topics.create("127.0.0.1:1", "tidegate.", 1, 1)
