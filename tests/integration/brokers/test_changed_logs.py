"""Logs that are not what they were: a topic that was made anew, and records that expired unread.

Two daemons at work on three brokers halt at these partitions, and resume where a user says.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.acceptance.command import Tidegate
from tests.acceptance.daemon_pair import PARTITIONS, DaemonPair, make_topics, two_daemons
from tests.integration.brokers.conftest import Brokers

FILE = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a")) as dag:
    dag.empty("only")
"""
URI = "s://a"
HALTED = "SELECT FROM lease WHERE halted"
LOOK_EVERY_S = 0.1


@pytest.fixture
async def daemons(brokers: Brokers, dsn: str, topic_prefix: str, tmp_path: Path) -> AsyncIterator[DaemonPair]:
    prefix = f"{topic_prefix}pair."
    async with two_daemons(dsn, brokers.bootstrap, prefix, tmp_path, FILE, replication=3) as pair:
        yield pair


async def ask(brokers: Brokers, call: str, *args: Any) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap)
    await admin.start()
    try:
        await getattr(admin, call)(*args)
    finally:
        await admin.close()


async def until_gone(brokers: Brokers, topic: str) -> None:
    while await brokers.quorum.leaders(topic):
        await anyio.sleep(LOOK_EVERY_S)


async def resume(tidegate: Tidegate, *options: str) -> list[dict[str, Any]]:
    """All that stand still; returns where each of them goes on."""
    halted = msgspec.json.decode((await tidegate("topics", "halted", "--json")).out)
    answers = [await tidegate("topics", "resume", each["partition"], *options, "--json") for each in halted]
    return [msgspec.json.decode(answer.out) for answer in answers]


async def test_a_topic_that_was_made_anew_stands_still_until_a_user_resumes_it(
    daemons: DaemonPair, brokers: Brokers, tidegate: Tidegate, topic_prefix: str
) -> None:
    first = await daemons.send(*[URI] * (3 * PARTITIONS))
    await daemons.until_taken(first)

    await ask(brokers, "delete_topics", [daemons.topic])
    await until_gone(brokers, daemons.topic)
    await make_topics(brokers.bootstrap, f"{topic_prefix}pair.", 3)
    second = await daemons.send(*[URI] * PARTITIONS)
    await daemons.until_rows(PARTITIONS, f"SELECT count(*) FROM ({HALTED}) AS halted")
    before = await daemons.runs()
    resumed = await resume(tidegate, "--at", "earliest", "--new-topic")
    await daemons.until_taken(second)

    assert [(each["stood_at"], each["next_offset"]) for each in resumed] == [(3, 0)] * PARTITIONS
    assert not set(second) & set().union(*before)
    assert sorted(event for run in await daemons.runs() for event in run) == sorted(first + second)
    assert not (await daemons.audit()).findings


async def test_records_that_expired_unread_are_an_incident_and_the_rest_is_read(
    daemons: DaemonPair, brokers: Brokers, tidegate: Tidegate
) -> None:
    first = await daemons.send(*[URI] * PARTITIONS)
    await daemons.until_taken(first)

    # Frozen daemons would not do: they are sent what they had asked for, and read it when they wake.
    await daemons.stop()
    expired, kept = await daemons.send(*[URI] * PARTITIONS), await daemons.send(*[URI] * PARTITIONS)
    await ask(brokers, "delete_records", {TopicPartition(daemons.topic, n): RecordsToDelete(2) for n in range(PARTITIONS)})
    await daemons.start()
    await daemons.until_rows(PARTITIONS, f"SELECT count(*) FROM ({HALTED}) AS halted")
    resumed = await resume(tidegate, "--at", "earliest")
    await daemons.until_taken(kept)

    assert [(each["stood_at"], each["next_offset"]) for each in resumed] == [(1, 2)] * PARTITIONS
    taken = sorted(event for run in await daemons.runs() for event in run)
    assert taken == sorted(first + kept)
    assert not set(expired) & set(taken)
