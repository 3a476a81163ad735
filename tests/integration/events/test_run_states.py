"""The states of all runs from the full and from the compacted topic."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import anyio
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.integration.events.conftest import PARTITIONS, Fragile, beginning
from tests.integration.events.states import Relay, run, run_of, task
from tidegate.events import GapError, RunStates, topics
from tidegate.events.sink import ProducerRecord, Sink
from tidegate.events.source import Record, Source
from tidegate.events.subscriber import Subscription
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.wire.event import Kind, StateChanged

WITHIN_S = 60.0


@pytest.fixture
async def relay(kafka: str, topic: str, topic_prefix: str) -> AsyncIterator[Relay]:
    async with Sink(kafka) as sink:
        yield Relay(sink, topic_prefix)


@pytest.fixture
def states(kafka: str, topic_prefix: str) -> RunStates:
    return RunStates(kafka, topic_prefix=topic_prefix)


async def test_the_last_event_of_each_run_is_known(relay: Relay, states: RunStates) -> None:
    await relay.send(run(1, "a"), run(1, "b"), run(2, "a"), task(1), run(1, "c"))

    await states.catch_up()

    assert dict(states) == {("d", "a"): run(2, "a"), ("d", "b"): run(1, "b"), ("d", "c"): run(1, "c")}
    assert states.of("d").keys() == {"a", "b", "c"}
    assert states.of("another") == {}


async def test_an_empty_topic_has_no_runs(relay: Relay, states: RunStates) -> None:
    with anyio.fail_after(WITHIN_S):
        await states.catch_up()

    assert len(states) == 0


async def test_catching_up_goes_on_where_it_stopped(relay: Relay, states: RunStates) -> None:
    await relay.send(run(1))
    await states.catch_up()
    await relay.send(run(2), run(1, "b"))

    await states.catch_up()

    assert (states["d", "r"], states["d", "b"], states.gaps) == (run(2), run(1, "b"), 0)


async def test_repetitions_change_nothing(relay: Relay, states: RunStates) -> None:
    await relay.send(run(1), run(2), run(1), run(2))

    await states.catch_up()

    assert (states["d", "r"], states.gaps) == (run(2), 0)


async def test_changes_come_once_each_after_what_was_read(relay: Relay, states: RunStates) -> None:
    await relay.send(run(1))
    await states.catch_up()
    await relay.send(run(1), run(2), run(2), run(3))

    with anyio.fail_after(WITHIN_S):
        first = await take(states, 1)
        second = await take(states, 1)

    assert (first, second, states["d", "r"]) == ([run(2)], [run(3)], run(3))


async def take(states: RunStates, count: int) -> list[StateChanged]:
    taken: list[StateChanged] = []
    async with aclosing(states.changes()) as changes:
        async for event in changes:
            taken.append(event)
            if len(taken) == count:
                break
    return taken


async def test_a_wait_that_was_given_up_leaves_all_as_it_was(
    relay: Relay, states: RunStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    await relay.send(run(1))
    await states.catch_up()
    fetch, waits = Subscription.fetch, anyio.Event()

    async def tell(subscription: Subscription, source: Source) -> Sequence[Record]:
        waits.set()
        return await fetch(subscription, source)

    monkeypatch.setattr(Subscription, "fetch", tell)

    async with anyio.create_task_group() as tg:
        tg.start_soon(take, states, 1)
        await waits.wait()
        tg.cancel_scope.cancel()
    await relay.send(run(2))
    await states.catch_up()

    assert states["d", "r"] == run(2)


async def test_a_gap_is_reported_and_the_state_is_right(relay: Relay, kafka: str, topic_prefix: str) -> None:
    gaps: list[GapError] = []
    states = RunStates(kafka, topic_prefix=topic_prefix, on_gap=gaps.append)
    await relay.send(run(1), run(4), run(5))

    await states.catch_up()

    assert (states["d", "r"], states.gaps) == (run(5), 1)
    assert [(gap.event, gap.expected) for gap in gaps] == [(run(4), 2)]


async def test_a_run_whose_first_events_are_gone_has_no_gap(relay: Relay, states: RunStates) -> None:
    await relay.send(run(7), run(8))

    await states.catch_up()

    assert (states["d", "r"], states.gaps) == (run(8), 0)


async def test_what_is_no_event_is_passed_over(relay: Relay, states: RunStates, topic_prefix: str) -> None:
    await relay.send(run(1))
    await relay.sink.send_all([ProducerRecord(topics.name(topic_prefix, Kind.DAG_RUN_STATE), b"d/r", b"not JSON")])

    with anyio.fail_after(WITHIN_S):
        await states.catch_up()

    assert dict(states) == {("d", "r"): run(1)}


async def compact_soon(kafka: str, topic: str) -> None:
    """As Kafka would in a week."""
    soon = {"segment.ms": "100", "min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.001", "cleanup.policy": "compact"}
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, soon)])
    await admin.close()


async def records_of(kafka: str, topic: str) -> int:
    async with Source(kafka) as source:
        source.assign(beginning(topic))
        found = 0
        while batches := await source.fetch(1.0, 1000):
            found += sum(map(len, batches.values()))
        return found


async def test_a_compacted_topic_tells_the_same(relay: Relay, states: RunStates, kafka: str, topic_prefix: str) -> None:
    topic = topics.name(topic_prefix, Kind.DAG_RUN_STATE)
    await compact_soon(kafka, topic)
    await relay.send(*(run(seq, run_id) for run_id in "abc" for seq in range(1, 40)))
    fillers = [run(1, run_of("filler", partition, PARTITIONS)) for partition in range(PARTITIONS)]

    with anyio.fail_after(3 * WITHIN_S):
        while await records_of(kafka, topic) > 60:  # the newest segment of a partition is never compacted, so make new ones
            await relay.send(*fillers)
            await anyio.sleep(1.0)
    await relay.send(run(40, "a"))
    await states.catch_up()

    last = {run_id: event for run_id, event in states.of("d").items() if run_id in "abc"}
    assert last == {"a": run(40, "a"), "b": run(39, "b"), "c": run(39, "c")}
    assert states.gaps == 0


async def test_missing_topics_are_reported(states: RunStates) -> None:
    with pytest.raises(RequestError, match=r"no topic test-\w+\.dag-run-state; create it with `tidegate topics create`"):
        await states.catch_up()


async def test_an_unavailable_kafka_is_reported_at_the_start() -> None:
    with pytest.raises(UnavailableError, match=r"Kafka does not answer at 127\.0\.0\.1:1"):
        await RunStates("127.0.0.1:1").catch_up()


async def test_it_outlives_an_outage(fragile: Fragile, topic_prefix: str) -> None:
    states = RunStates(fragile.bootstrap, topic_prefix=topic_prefix)
    async with Sink(fragile.bootstrap, delivery_timeout_s=30.0) as sink:
        relay = Relay(sink, topic_prefix)
        await relay.send(run(1))
        await states.catch_up()
        await fragile.kill()
        await fragile.start()
        await relay.send(run(2))
        with anyio.fail_after(WITHIN_S):
            await states.catch_up()

    assert (states["d", "r"], states.gaps) == (run(2), 0)
