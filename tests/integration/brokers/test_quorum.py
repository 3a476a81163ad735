"""A quorum of three brokers, started once: brokers that are dead or stand still, and logs that are not what they were.

Every client finds the live brokers in time. Two daemons at work halt at partitions of a topic that was made anew, and of one
whose records expired unread, and resume where a user says.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from tests.acceptance.command import Tidegate
from tests.acceptance.daemon_pair import PARTITIONS as PARTITIONS_OF_PAIR
from tests.acceptance.daemon_pair import DaemonPair, make_topics, two_daemons
from tests.integration.brokers.conftest import PARTITIONS, Brokers
from tests.integration.events.conftest import beginning, read
from tests.integration.events.test_topics import config_of
from tests.quorum import Replicas
from tidegate.events import Publisher, RunStates, topics
from tidegate.events.outbox_sink import LEADERLESS, OutboxSink
from tidegate.events.sink import ProducerRecord, Sink, UndeliveredError
from tidegate.events.source import Source
from tidegate.events.subscriber import LastSeqs, Subscription
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.wire.event import Kind

GIVEN_UP_S = 30.0
"""A request may take 10 s, and so may the question after it who leads now, where it meets the same broker."""

FILE = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a")) as dag:
    dag.empty("only")
"""
URI = "s://a"
HALTED = "SELECT FROM lease WHERE halted"
LOOK_EVERY_S = 0.1


@pytest.fixture
def topic(topic_prefix: str) -> str:
    return topics.name(topic_prefix, Kind.DATASET_UPDATED)


def messages(topic: str, count: int = 30) -> list[ProducerRecord]:
    return [ProducerRecord(topic, b"key-%d" % number, b"%d" % number) for number in range(count)]


async def until_delivered(sink: Sink, wanted: list[ProducerRecord]) -> None:
    """Each at least once."""
    left = wanted
    while left:
        try:
            await sink.send_all(left)
        except UndeliveredError as error:
            left = [message for message, arrived in zip(left, error.acknowledged, strict=True) if not arrived]
        else:
            return


class Outbox:
    """What a sink is to send, of which it is asked for the rest again and again."""

    def __init__(self, sink: OutboxSink, wanted: list[ProducerRecord]) -> None:
        self.sink = sink
        self.left = wanted

    async def send(self) -> None:
        with suppress(UnavailableError):
            if not self.sink.is_connected:
                await self.sink.connect()
            await self.sink.settle()
            waits = await self.sink.send_available(self.left)
            self.left = [record for record, place in zip(self.left, waits, strict=True) if place is not None]

    async def until_leaderless(self) -> None:
        """Until a partition is left that has no leader."""
        while set(self.sink.resting.silent.values()) != {LEADERLESS}:
            await self.send()
            await anyio.sleep(LOOK_EVERY_S)

    async def until_sent(self) -> None:
        while self.left:
            await self.send()
            await anyio.sleep(LOOK_EVERY_S)


async def values(source: Source, count: int) -> set[int]:
    """Until `count` different ones have come."""
    found: set[int] = set()
    while len(found) < count:
        found |= {int(record.value or b"") for record in await read(source, 1)}
    return found


async def test_every_client_finds_the_live_brokers(brokers: Brokers, topic: str, topic_prefix: str, tidegate: Tidegate) -> None:
    single = f"{topic_prefix}single."
    await topics.create(brokers.bootstrap, single, PARTITIONS, 1)
    on_one = messages(topics.name(single, Kind.DAG_RUN_STATE))
    await brokers.kill(1)

    async with OutboxSink(brokers.bootstrap, transactional_id=f"{single}outbox", delivery_timeout_s=2.0) as outbox_sink:
        outbox = Outbox(outbox_sink, on_one)
        with anyio.fail_after(4 * GIVEN_UP_S):
            async with anyio.create_task_group() as tg:
                tg.start_soon(outbox.until_leaderless)
                async with Sink(brokers.bootstrap) as sink:
                    await until_delivered(sink, messages(topic))
                async with Source(brokers.bootstrap) as source:
                    source.assign(beginning(topic))
                    found = await values(source, 30)
                async with Publisher(
                    brokers.bootstrap, source="test", topic_prefix=topic_prefix, timeout_s=GIVEN_UP_S
                ) as publisher:
                    await publisher.dataset_updated("lake://a")
                states = RunStates(brokers.bootstrap, topic_prefix=topic_prefix)
                await states.catch_up()
                subscription = Subscription({topics.name(single, Kind.DAG_RUN_STATE): Kind.DAG_RUN_STATE}, None, LastSeqs())
                async with Source(brokers.bootstrap) as source, subscription.connected(source, from_beginning=True):
                    led, had_caught_up = len(subscription.positions), subscription.has_caught_up
                answer = await tidegate("topics", "create", "--json")
            waited = len(outbox.left)
            await brokers.start(1)
            await outbox.until_sent()
        await RunStates(brokers.bootstrap, topic_prefix=single).catch_up()

    assert (0 < waited < 30, outbox_sink.resting.silent) == (True, {})
    assert found == set(range(30))
    assert (0 < led < PARTITIONS, had_caught_up) == (True, False)
    assert [each["existed"] for each in msgspec.json.decode(answer.out)] == [True] * len(Kind)


async def test_a_connection_to_a_leader_that_stands_still_is_given_up(brokers: Brokers, topic: str) -> None:
    async with Sink(brokers.bootstrap) as sink, Source(brokers.bootstrap) as source:
        source.assign(beginning(topic))
        await until_delivered(sink, messages(topic, 10))
        before = await values(source, 10)
        leaders = await brokers.quorum.leaders(topic)
        brokers.quorum.freeze(1)
        with anyio.fail_after(2 * GIVEN_UP_S):
            async with anyio.create_task_group() as tg:
                tg.start_soon(until_delivered, sink, messages(topic))
                found = await values(source, 30)

    assert (before, found) == (set(range(10)), set(range(30)))
    assert 1 in leaders.values()


async def test_with_two_of_three_away_nothing_is_acknowledged_and_then_everything_once(brokers: Brokers, topic: str) -> None:
    async with Sink(brokers.bootstrap, delivery_timeout_s=3.0) as sink, Source(brokers.bootstrap) as source:
        source.assign(beginning(topic))
        await until_delivered(sink, messages(topic, 10))
        await brokers.kill(1, 2)
        with pytest.raises(UndeliveredError) as caught:
            await sink.send_all(messages(topic))
        await brokers.start(1, 2)
        with anyio.fail_after(2 * GIVEN_UP_S):
            await until_delivered(sink, messages(topic))
            found = await values(source, 30)

    assert not any(caught.value.acknowledged)
    assert found == set(range(30))


async def test_topics_have_as_many_copies_as_is_said_and_need_two_of_three(brokers: Brokers, topic: str) -> None:
    config = await config_of(brokers.bootstrap, topic)
    replicas: list[Replicas] = []
    while not replicas:  # The broker that is asked may learn of the new topic only now.
        replicas = [each for each in await brokers.quorum.replicas() if each.topic == topic]

    assert {each.copies for each in replicas} == {frozenset({1, 2, 3})}
    assert len(replicas) == PARTITIONS
    assert config["min.insync.replicas"] == "2"


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
    first = await daemons.send(*[URI] * (3 * PARTITIONS_OF_PAIR))
    await daemons.until_taken(first)

    await ask(brokers, "delete_topics", [daemons.topic])
    await until_gone(brokers, daemons.topic)
    await make_topics(brokers.bootstrap, f"{topic_prefix}pair.", 3)
    second = await daemons.send(*[URI] * PARTITIONS_OF_PAIR)
    await daemons.until_rows(PARTITIONS_OF_PAIR, f"SELECT count(*) FROM ({HALTED}) AS halted")
    before = await daemons.runs()
    resumed = await resume(tidegate, "--at", "earliest", "--new-topic")
    await daemons.until_taken(second)

    assert [(each["stood_at"], each["next_offset"]) for each in resumed] == [(3, 0)] * PARTITIONS_OF_PAIR
    assert not set(second) & set().union(*before)
    assert sorted(event for run in await daemons.runs() for event in run) == sorted(first + second)
    assert not (await daemons.audit()).findings


async def test_records_that_expired_unread_are_an_incident_and_the_rest_is_read(
    daemons: DaemonPair, brokers: Brokers, tidegate: Tidegate
) -> None:
    first = await daemons.send(*[URI] * PARTITIONS_OF_PAIR)
    await daemons.until_taken(first)

    # Frozen daemons would not do: they are sent what they had asked for, and read it when they wake.
    await daemons.stop()
    expired, kept = await daemons.send(*[URI] * PARTITIONS_OF_PAIR), await daemons.send(*[URI] * PARTITIONS_OF_PAIR)
    await ask(
        brokers, "delete_records", {TopicPartition(daemons.topic, n): RecordsToDelete(2) for n in range(PARTITIONS_OF_PAIR)}
    )
    await daemons.start()
    await daemons.until_rows(PARTITIONS_OF_PAIR, f"SELECT count(*) FROM ({HALTED}) AS halted")
    resumed = await resume(tidegate, "--at", "earliest")
    await daemons.until_taken(kept)

    assert [(each["stood_at"], each["next_offset"]) for each in resumed] == [(1, 2)] * PARTITIONS_OF_PAIR
    taken = sorted(event for run in await daemons.runs() for event in run)
    assert taken == sorted(first + kept)
    assert not set(expired) & set(taken)
