"""Published events decode in a daemon."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest

from tests.integration.events.conftest import PARTITIONS, read
from tests.tokens import token_of
from tidegate.events import Publisher, SyncPublisher, Update, topics
from tidegate.events.publisher import BATCH_EVENTS
from tidegate.events.source import Partition, Record, Source
from tidegate.schemas.error import RequestError
from tidegate.schemas.wire.envelope import Envelope, decode
from tidegate.schemas.wire.event import DagFileChanged, DatasetUpdated, EventId, Incoming, Kind, TaskFinished

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SUBMISSION = UUID("6a1c2f0e-7a4e-5d0b-9d3c-0d6f6a0c9f11")
TOKEN = token_of(SUBMISSION)


async def published(kafka: str, prefix: str, kind: Kind) -> list[Record]:
    topic = topics.name(prefix, kind)
    async with Source(kafka) as source:
        source.assign({Partition(topic, number): 0 for number in range(PARTITIONS)})
        bounds = await source.bounds(list(source.positions()))
        return await read(source, sum(end for _, end in bounds.values()))


def read_as(kind: Kind, record: Record) -> tuple[Envelope, Incoming]:
    return decode(kind, record.headers, record.value)


async def test_a_dataset_update_is_read_as_it_was_published(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        identity = await publisher.dataset_updated("lake://a", {"day": "2013-01-01"}, event_id="7", time=NOON)

    (record,) = await published(kafka, topic_prefix, Kind.DATASET_UPDATED)
    assert (identity, record.key) == (EventId("test", "7"), b"lake://a")
    assert read_as(Kind.DATASET_UPDATED, record) == (
        Envelope(source="test", id="7", time=NOON),
        DatasetUpdated(uri="lake://a", extra={"day": "2013-01-01"}),
    )


async def test_a_changed_file_is_read_as_it_was_published(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        await publisher.dag_file_changed("flights/daily.py")

    (record,) = await published(kafka, topic_prefix, Kind.DAG_FILE_CHANGED)
    assert (record.key, read_as(Kind.DAG_FILE_CHANGED, record)[1]) == (
        b"flights/daily.py",
        DagFileChanged(path="flights/daily.py"),
    )


async def test_a_finished_task_is_keyed_by_its_run(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        await publisher.task_finished(SUBMISSION, "failed", dag_id="d", run_id="r", token=TOKEN, exit_code=3, finished_at=NOON)

    (record,) = await published(kafka, topic_prefix, Kind.TASK_FINISHED)
    assert (record.key, read_as(Kind.TASK_FINISHED, record)[1]) == (
        b"d/r",
        TaskFinished(submission_id=SUBMISSION, token=TOKEN, outcome="failed", exit_code=3, finished_at=NOON),
    )


async def test_a_reason_that_could_not_be_stored_is_mended(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        reason = "a\0b\ud800c" + "x" * 20_000
        await publisher.task_finished(SUBMISSION, "failed", dag_id="d", run_id="r", token=TOKEN, reason=reason)

    (record,) = await published(kafka, topic_prefix, Kind.TASK_FINISHED)
    event = read_as(Kind.TASK_FINISHED, record)[1]
    assert isinstance(event, TaskFinished)
    assert (event.reason[:6], len(event.reason)) == ("a b?cx", 10_000)


async def test_each_call_without_an_id_is_an_event_of_its_own(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        told = {await publisher.dataset_updated("lake://a") for _ in range(2)}

    envelopes = [read_as(Kind.DATASET_UPDATED, r)[0] for r in await published(kafka, topic_prefix, Kind.DATASET_UPDATED)]
    assert {EventId(e.source or "", e.id or "") for e in envelopes} == told
    assert len(told) == 2


async def test_many_events_may_be_published_at_once(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher, anyio.create_task_group() as group:
        for number in range(500):
            group.start_soon(publisher.dataset_updated, f"lake://{number}")

    records = await published(kafka, topic_prefix, Kind.DATASET_UPDATED)
    assert {record.key for record in records} == {b"lake://%d" % number for number in range(500)}
    assert len(records) == 500


async def test_events_of_a_dataset_stay_in_order(kafka: str, topic: str, topic_prefix: str) -> None:
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        for number in range(20):
            await publisher.dataset_updated("lake://a", event_id=str(number))

    envelopes = [read_as(Kind.DATASET_UPDATED, r)[0] for r in await published(kafka, topic_prefix, Kind.DATASET_UPDATED)]
    assert [envelope.id for envelope in envelopes] == [str(number) for number in range(20)]


async def test_a_program_without_asyncio_publishes_the_same(kafka: str, topic: str, topic_prefix: str) -> None:
    def script() -> None:
        with SyncPublisher(kafka, source="script", topic_prefix=topic_prefix) as publisher:
            publisher.dataset_updated("lake://a", {"x": 1}, event_id="7", time=NOON)
            publisher.dag_file_changed("a.py")
            publisher.task_finished(SUBMISSION, "succeeded", dag_id="d", run_id="r", token=TOKEN)

    await anyio.to_thread.run_sync(script)

    kinds = (Kind.DATASET_UPDATED, Kind.DAG_FILE_CHANGED, Kind.TASK_FINISHED)
    events = [read_as(kind, record)[1] for kind in kinds for record in await published(kafka, topic_prefix, kind)]
    assert events == [
        DatasetUpdated(uri="lake://a", extra={"x": 1}),
        DagFileChanged(path="a.py"),
        TaskFinished(submission_id=SUBMISSION, token=TOKEN, outcome="succeeded"),
    ]


async def test_threads_may_share_a_publisher(kafka: str, topic: str, topic_prefix: str) -> None:
    def script() -> None:
        with SyncPublisher(kafka, source="script", topic_prefix=topic_prefix) as publisher, ThreadPoolExecutor(8) as threads:
            list(threads.map(publisher.dataset_updated, [f"lake://{number}" for number in range(100)]))

    await anyio.to_thread.run_sync(script)

    assert len(await published(kafka, topic_prefix, Kind.DATASET_UPDATED)) == 100


async def test_many_updates_are_published_in_one_call_in_their_order(kafka: str, topic: str, topic_prefix: str) -> None:
    many = [Update("lake://a", {"n": number}, event_id=str(number)) for number in range(2 * BATCH_EVENTS + 1)]

    def script() -> list[EventId]:
        with SyncPublisher(kafka, source="script", topic_prefix=topic_prefix) as publisher:
            return list(publisher.datasets_updated([*many, Update("lake://b", time=NOON)]))

    *told, last = await anyio.to_thread.run_sync(script)

    records = await published(kafka, topic_prefix, Kind.DATASET_UPDATED)
    envelopes = [read_as(Kind.DATASET_UPDATED, record)[0] for record in records if record.key == b"lake://a"]
    assert [envelope.id for envelope in envelopes] == [update.event_id for update in many] == [identity.id for identity in told]
    (other,) = [read_as(Kind.DATASET_UPDATED, record)[0] for record in records if record.key == b"lake://b"]
    assert (other.id, other.time) == (last.id, NOON)


async def test_a_publisher_is_opened_and_closed_by_hand(kafka: str, topic: str, topic_prefix: str) -> None:
    def notebook() -> None:
        publisher = SyncPublisher(kafka, source="notebook", topic_prefix=topic_prefix).open()
        publisher.dataset_updated("lake://a")
        with pytest.raises(RequestError, match="the publisher is open already"):
            publisher.open()
        publisher.close()
        publisher.close()
        with pytest.raises(RequestError, match="the publisher is not open"):
            publisher.dataset_updated("lake://b")
        with pytest.raises(RequestError, match="the publisher was closed; create another one"):
            publisher.open()

    await anyio.to_thread.run_sync(notebook)

    assert [record.key for record in await published(kafka, topic_prefix, Kind.DATASET_UPDATED)] == [b"lake://a"]


async def test_closing_lets_what_is_under_way_arrive(kafka: str, topic: str, topic_prefix: str) -> None:
    publisher = Publisher(kafka, source="test", topic_prefix=topic_prefix, timeout_s=120)
    with anyio.fail_after(60):  # the second of two calls of `close` does not delay the first
        async with anyio.create_task_group() as group, publisher:
            for number in range(50):
                group.start_soon(publisher.dataset_updated, f"lake://{number}")
            await anyio.lowlevel.checkpoint()
            group.start_soon(publisher.close)

    assert len(await published(kafka, topic_prefix, Kind.DATASET_UPDATED)) == 50
