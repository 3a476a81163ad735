"""Subscribers get each state once, and are notified of gaps."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.integration.events.conftest import PARTITIONS, Fragile
from tests.integration.events.states import Relay, add_partitions, run, run_of, run_of_new_partition, task
from tidegate.events import DagRunStateChanged, GapError, Kind, TaskStateChanged, subscribe, subscriber, topics
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.events.source import Partition, Source
from tidegate.events.subscriber import LastSeqs, Subscription, read_states
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.wire.event import StateChanged


@pytest.fixture
async def relay(kafka: str, topic: str, topic_prefix: str) -> AsyncIterator[Relay]:
    async with Sink(kafka) as sink:
        yield Relay(sink, topic_prefix)


async def take(count: int, servers: str, prefix: str, **options: Any) -> list[StateChanged]:
    """The first events of a subscription."""
    received: list[StateChanged] = []
    with anyio.fail_after(60):
        async with aclosing(subscribe(servers, topic_prefix=prefix, **options)) as events:
            async for event in events:
                received.append(event)
                if len(received) == count:
                    break
    return received


async def test_events_arrive_as_they_were_published(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1), run(2), task(1))

    received = await take(3, kafka, topic_prefix, from_beginning=True)

    assert [event for event in received if isinstance(event, DagRunStateChanged)] == [run(1), run(2)]
    assert [event for event in received if isinstance(event, TaskStateChanged)] == [task(1)]


async def test_repetitions_are_dropped(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1), run(2), run(1), run(2), run(3))

    received = await take(3, kafka, topic_prefix, from_beginning=True)

    assert received == [run(1), run(2), run(3)]


async def test_only_the_kinds_asked_for_arrive(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1), task(1), task(2))

    received = await take(2, kafka, topic_prefix, from_beginning=True, kinds=[Kind.TASK_STATE])

    assert received == [task(1), task(2)]


async def test_a_subscription_starts_with_what_comes_next(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1, "before"))
    received: list[StateChanged] = []

    async def follow() -> None:
        received.extend(await take(1, kafka, topic_prefix))

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        number = 0
        while not received:  # it has no way to say that it has begun
            number += 1
            await relay.send(run(1, f"after-{number}"))
            await anyio.sleep(0.1)

    assert received[0].run_id.startswith("after-")


async def test_a_gap_ends_the_subscription(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1), run(2), run(4))

    with pytest.raises(GapError, match="expected DagRunStateChanged 3, got 4"):
        await take(4, kafka, topic_prefix, from_beginning=True)


async def test_a_gap_may_be_taken_note_of_instead(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1), run(4), run(5))
    gaps: list[GapError] = []

    received = await take(3, kafka, topic_prefix, from_beginning=True, on_gap=gaps.append)

    assert received == [run(1), run(4), run(5)]
    assert [(gap.event, gap.expected) for gap in gaps] == [(run(4), 2)]


async def test_a_subscription_with_a_name_goes_on_where_it_stopped(kafka: str, topic_prefix: str, relay: Relay) -> None:
    named = {"from_beginning": True, "group": topic_prefix, "kinds": [Kind.DAG_RUN_STATE]}
    await relay.send(*(run(seq) for seq in range(1, 6)))
    await take(3, kafka, topic_prefix, **named)

    received = await take(3, kafka, topic_prefix, **named)

    assert received == [run(3), run(4), run(5)]  # the third was in hand when the first subscription ended


async def test_a_record_that_is_no_event_is_passed_over(kafka: str, topic_prefix: str, relay: Relay) -> None:
    await relay.send(run(1))
    await relay.sink.send_all([ProducerRecord(topics.name(topic_prefix, Kind.DAG_RUN_STATE), b"d/r", b"not JSON")])
    await relay.send(run(2))

    received = await take(2, kafka, topic_prefix, from_beginning=True)

    assert received == [run(1), run(2)]


async def test_events_that_expired_before_they_were_read_are_a_gap(kafka: str, topic_prefix: str, relay: Relay) -> None:
    topic = topics.name(topic_prefix, Kind.TASK_STATE)
    gaps: list[GapError] = []
    subscription = Subscription({topic: Kind.TASK_STATE}, gaps.append, LastSeqs())
    await relay.send(task(1))
    first = await following(kafka, subscription, topic_prefix)
    await relay.send(task(2), task(3))
    await expire(kafka, topic)
    await relay.send(task(4))
    second = await following(kafka, subscription, topic_prefix)
    await relay.send(task(5))
    await expire(kafka, topic)
    await relay.send(task(6))
    later = await take(1, kafka, topic_prefix, group=topic_prefix, kinds=[Kind.TASK_STATE])

    assert [first, second, *later] == [task(1), task(4), task(6)]
    assert [(gap.event, gap.expected) for gap in gaps] == [(task(4), 2)]


async def test_partitions_that_a_topic_gets_later_are_read(
    kafka: str, topic_prefix: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "PARTITIONS_EVERY_S", 0.0)
    before, named = run(1, "before"), {"group": topic_prefix, "kinds": [Kind.DAG_RUN_STATE]}
    after = run(1, run_of_new_partition(PARTITIONS))
    await relay.send(before)
    await take(1, kafka, topic_prefix, from_beginning=True, **named)

    async with aclosing(subscribe(kafka, topic_prefix=topic_prefix, from_beginning=True)) as events:
        with anyio.fail_after(60):
            first = await anext(events)
            await add_partitions(kafka, topics.name(topic_prefix, Kind.DAG_RUN_STATE), PARTITIONS)
            async with Sink(kafka) as sink:
                await Relay(sink, topic_prefix).send(after)
            second = await anext(events)
    resumed = await take(2, kafka, topic_prefix, **named)

    assert [first, second] == [before, after]
    assert {event.run_id for event in resumed} == {before.run_id, after.run_id}


class PartlyLed(Source):
    """Only these partitions of each topic have a leader."""

    led: Collection[int] = (0,)

    async def has_leader(self, topic: str) -> Mapping[int, bool]:
        return {number: number in self.led for number in await super().has_leader(topic)}


@pytest.mark.parametrize("from_beginning", [False, True])
async def test_a_partition_without_a_leader_is_read_once_it_has_one_and_the_others_meanwhile(
    kafka: str, topic_prefix: str, relay: Relay, monkeypatch: pytest.MonkeyPatch, from_beginning: bool
) -> None:
    monkeypatch.setattr(subscriber, "Source", PartlyLed)
    monkeypatch.setattr(subscriber, "LEADERS_EVERY_S", 0.0)
    before, waiting, led = (run(1, run_of(*place, PARTITIONS)) for place in (("before", 1), ("waiting", 1), ("led", 0)))
    topic = topics.name(topic_prefix, Kind.DAG_RUN_STATE)
    subscription = Subscription({topic: Kind.DAG_RUN_STATE}, None, LastSeqs())
    await relay.send(before)
    received: list[StateChanged | None] = []

    with anyio.fail_after(60):
        async with aclosing(read_states(kafka, subscription, from_beginning=from_beginning)) as events:
            await anext(events)  # it has begun
            await relay.send(waiting, led)
            while led not in received:
                received.append(await anext(events))
            had_caught_up = subscription.has_caught_up
            monkeypatch.setattr(PartlyLed, "led", range(PARTITIONS))
            while waiting not in received or not subscription.has_caught_up:
                received.append(await anext(events))

    assert [event for event in received if event] == [led, *([before] if from_beginning else []), waiting]
    assert not had_caught_up


async def test_a_subscription_without_any_leader_does_not_start(
    kafka: str, topic_prefix: str, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "Source", PartlyLed)
    monkeypatch.setattr(PartlyLed, "led", ())
    await relay.send(run(1))

    with pytest.raises(UnavailableError, match=r"^Kafka has no leader for any partition of test-\w+\.dag-run-state$"):
        await take(1, kafka, topic_prefix, kinds=[Kind.DAG_RUN_STATE])


async def test_a_topic_that_was_created_again_with_fewer_partitions_is_read(kafka: str, topic_prefix: str, relay: Relay) -> None:
    topic = topics.name(topic_prefix, Kind.DAG_RUN_STATE)
    subscription = Subscription({topic: Kind.DAG_RUN_STATE}, None, LastSeqs())
    await relay.send(run(1))
    first = await following(kafka, subscription, topic_prefix)
    subscription.positions[Partition(topic, PARTITIONS)] = 5
    await relay.send(run(2))

    second = await following(kafka, subscription, topic_prefix)

    assert [first, second] == [run(1), run(2)]
    assert len(subscription.positions) == PARTITIONS


async def following(kafka: str, subscription: Subscription, group: str) -> StateChanged | None:
    """The next event of the subscription, over a connection of its own."""
    with anyio.fail_after(60):
        async with aclosing(read_states(kafka, subscription, from_beginning=True, group=group)) as events:
            return await anext(event async for event in events if event is not None)


async def expire(kafka: str, topic: str) -> None:
    """All that the topic holds."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    (description,) = await admin.describe_topics([topic])
    await admin.delete_records({TopicPartition(topic, p["partition"]): RecordsToDelete(-1) for p in description["partitions"]})
    await admin.close()


async def test_cancellation_ends_a_subscription(kafka: str, topic_prefix: str, relay: Relay) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(take, 1, kafka, topic_prefix)
            await anyio.sleep(0.5)
            group.cancel_scope.cancel()


async def test_missing_topics_are_reported(kafka: str, topic_prefix: str) -> None:
    with pytest.raises(RequestError, match=r"no topic test-\w+\.dag-run-state; create it with `tidegate topics create`"):
        await take(1, kafka, topic_prefix)


async def test_an_unavailable_kafka_is_reported_at_the_start() -> None:
    with pytest.raises(UnavailableError, match=r"Kafka does not answer at 127\.0\.0\.1:1"):
        await take(1, "127.0.0.1:1", "tidegate.")


async def test_a_subscription_outlives_an_outage(fragile: Fragile, topic_prefix: str) -> None:
    async with Sink(fragile.bootstrap, delivery_timeout_s=30.0) as sink:
        relay = Relay(sink, topic_prefix)
        await relay.send(run(1))
        async with aclosing(subscribe(fragile.bootstrap, topic_prefix=topic_prefix, from_beginning=True)) as events:
            received = [await anext(events)]
            await fragile.kill()
            await fragile.start()
            await relay.send(run(2))
            with anyio.fail_after(60):
                received.append(await anext(events))

    assert received == [run(1), run(2)]
