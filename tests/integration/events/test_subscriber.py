"""Subscribers get each state once, and are notified of gaps."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.integration.events.conftest import Fragile
from tests.integration.events.states import Relay, run, task
from tidegate.events import DagRunStateChanged, GapError, Kind, TaskStateChanged, subscribe, topics
from tidegate.events.sink import OutMessage, Sink
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
    await relay.sink.send_all([OutMessage(topics.name(topic_prefix, Kind.DAG_RUN_STATE), b"d/r", b"not JSON")])
    await relay.send(run(2))

    received = await take(2, kafka, topic_prefix, from_beginning=True)

    assert received == [run(1), run(2)]


async def test_events_that_expired_before_they_were_read_are_a_gap(kafka: str, topic_prefix: str, relay: Relay) -> None:
    named: dict[str, Any] = {"from_beginning": True, "group": topic_prefix, "kinds": [Kind.TASK_STATE]}
    gaps: list[GapError] = []
    await relay.send(task(1))

    async with aclosing(subscribe(kafka, topic_prefix=topic_prefix, on_gap=gaps.append, **named)) as events:
        first = await anext(events)
        await relay.send(task(2))
        second = await anext(events)
    await relay.send(task(3), task(4))
    await expire(kafka, topics.name(topic_prefix, Kind.TASK_STATE))
    await relay.send(task(5))
    third = await take(1, kafka, topic_prefix, on_gap=gaps.append, **named)

    assert [first, second, *third] == [task(1), task(2), task(5)]


async def expire(kafka: str, topic: str) -> None:
    """All that the topic holds."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    (description,) = await admin.describe_topics([topic])
    await admin.delete_records({TopicPartition(topic, p["partition"]): RecordsToDelete(-1) for p in description["partitions"]})
    await admin.close()


async def test_cancellation_ends_a_subscription_promptly(kafka: str, topic_prefix: str, relay: Relay) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(take, 1, kafka, topic_prefix)
        await anyio.sleep(0.5)
        group.cancel_scope.cancel()
        started = anyio.current_time()

    assert anyio.current_time() - started < 10


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
