"""Streams of changes: from Kafka through a web process to a client."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import anyio.lowlevel
import psutil
import pytest
from httpx_sse import ServerSentEvent, aconnect_sse

from tests.integration.events.states import Relay, add_partitions, run, run_of_new_partition, task
from tests.integration.web.conftest import PATIENCE_S, MakeSite, Site
from tests.servers import StartKafka, StartPostgres
from tests.tokens import make_known
from tests.waiting import until
from tidegate.daemon.live.hub import LAGGING, QUEUE, STOPPING, UNKNOWN
from tidegate.daemon.live.recent import Change
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.events import Kind, subscriber, topics
from tidegate.events.sink import Sink
from tidegate.events.source import Partition
from tidegate.schemas.queries import credentials

STREAM = "/api/v1/stream"
PARTITIONS = 3
DAG = 'from tidegate import Dag\nwith Dag("d") as dag:\n    dag.empty("t")\n'


class Reader:
    """A client of a stream."""

    def __init__(self, events: AsyncIterator[ServerSentEvent]) -> None:
        self._events = events

    async def next(self, *names: str) -> ServerSentEvent:
        """The next event; with names the next of one of them."""
        with anyio.fail_after(60):
            async for event in self._events:
                if event.event in (names or (event.event,)) and (event.data or event.event != "message"):
                    return event
        raise AssertionError(f"the stream ended before {names}")

    async def position(self) -> str:
        """What the client would send to continue after the last event; it follows the events."""
        async for event in self._events:
            if event.event == "message" and event.id:
                return event.id
        raise AssertionError("the stream ended")

    async def changes(self, count: int) -> list[tuple[str, str, int]]:
        """The next changes: kind, run and `seq`."""
        found = [await self.next(Kind.DAG_RUN_STATE, Kind.TASK_STATE) for _ in range(count)]
        return [(event.event, event.json()["run_id"], event.json()["seq"]) for event in found]


@asynccontextmanager
async def listening(site: Site, after: str | None = None, token: str | None = None, **params: str) -> AsyncIterator[Reader]:
    """An open stream."""
    headers = {"authorization": f"Bearer {token or await site.token()}", **({"last-event-id": after} if after else {})}
    async with (
        site.anonymous(headers=headers, timeout=None) as client,
        aconnect_sse(client, "GET", STREAM, params=params) as source,
    ):
        assert source.response.status_code == HTTPStatus.OK, await source.response.aread()
        yield Reader(source.aiter_sse())


@asynccontextmanager
async def reading(site: Site, **options: Any) -> AsyncIterator[Reader]:
    """A stream whose server is connected to Kafka."""
    await until(lambda: site.service.hub.recent.positions, PATIENCE_S)
    async with listening(site, **options) as reader:
        await reader.next("live")
        yield reader


@pytest.fixture
async def relay(kafka: str, topic_prefix: str) -> AsyncIterator[Relay]:
    await topics.create(kafka, topic_prefix, PARTITIONS, 1)
    async with Sink(kafka) as sink:
        yield Relay(sink, topic_prefix)


@pytest.fixture
def live_site(make_site: MakeSite, kafka: str, topic_prefix: str, relay: Relay) -> MakeSite:
    """Serve with the topics of the test."""
    return partial(make_site, kafka_servers=kafka, topic_prefix=topic_prefix)


async def test_a_stream_gets_the_changes_that_it_asks_for(live_site: MakeSite, relay: Relay) -> None:
    async with live_site() as site, AsyncExitStack() as opened:
        await site.history.file(DAG)
        every, of_run, of_dag, of_tasks, of_other = [
            await opened.enter_async_context(reading(site, **params))
            for params in ({}, {"dag_id": "d", "run_id": "r"}, {"dag_id": "d"}, {"kind": "task-state"}, {"run_id": "s"})
        ]
        await relay.send(run(1), task(1), run(1, "s"))

        assert {*await every.changes(3)} == {("dag-run-state", "r", 1), ("task-state", "r", 1), ("dag-run-state", "s", 1)}
        assert {*await of_dag.changes(3)} == {("dag-run-state", "r", 1), ("task-state", "r", 1), ("dag-run-state", "s", 1)}
        assert {*await of_run.changes(2)} == {("dag-run-state", "r", 1), ("task-state", "r", 1)}
        assert await of_tasks.changes(1) == [("task-state", "r", 1)]
        assert await of_other.changes(1) == [("dag-run-state", "s", 1)]

        await relay.send(task(2), run(2, "s"))
        assert await of_run.changes(1) == [("task-state", "r", 2)]
        assert await of_other.changes(1) == [("dag-run-state", "s", 2)]


async def test_a_page_is_told_that_something_changed(live_site: MakeSite, relay: Relay) -> None:
    async with live_site() as site:
        await site.history.file(DAG)
        async with reading(site, dag_id="d", coalesce="true") as page:
            await relay.send(*(task(seq) for seq in range(1, 20)))
            told = await page.next()

    assert (told.event, told.json()) == ("changed", {"runs": [["d", "r"]]})


async def test_a_client_continues_at_another_web_process(live_site: MakeSite, relay: Relay) -> None:
    async with live_site() as one, live_site() as two:
        async with reading(one) as first, reading(two) as watched:
            await relay.send(run(1), run(1, "s"))
            await first.changes(2)
            position = await first.position()
            await relay.send(run(2), run(2, "s"), run(1, "t"))
            await watched.changes(5)
        async with reading(two, after=position) as again:
            missed = await again.changes(3)

    assert {*missed} == {("dag-run-state", "r", 2), ("dag-run-state", "s", 2), ("dag-run-state", "t", 1)}


async def test_partitions_that_a_topic_gets_later_are_followed(
    live_site: MakeSite, relay: Relay, kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "PARTITIONS_EVERY_S", 0.0)
    added = run(1, run_of_new_partition(PARTITIONS))
    async with live_site() as site, reading(site) as first:
        await relay.send(run(1))
        await first.changes(1)
        await add_partitions(kafka, topics.name(topic_prefix, Kind.DAG_RUN_STATE), PARTITIONS)
        async with Sink(kafka) as sink:
            await Relay(sink, topic_prefix).send(added)
        received = await first.changes(1)
        async with reading(site, after=await first.position()) as again:
            await relay.send(run(2))
            after = await again.changes(1)

    assert received == [("dag-run-state", added.run_id, 1)]
    assert after == [("dag-run-state", "r", 2)]


@pytest.mark.parametrize("id_", ["1", "9.9.9.9.9.9", "x", "-1.0.0.0.0.0", "0." * 3000])
async def test_a_position_that_is_not_known_asks_to_read_again(live_site: MakeSite, id_: str) -> None:
    async with live_site() as site, reading(site), reading(site, after=id_) as reader:
        told = await reader.next("reload")

    assert told.json()["reason"] == UNKNOWN


async def test_a_reader_that_lags_is_told_to_read_again(live_site: MakeSite, relay: Relay) -> None:
    async with live_site() as site, reading(site) as reader:
        hub = site.service.hub
        place = Partition("topic", 0)
        content = b"event: dag-run-state\ndata: %b\n\n" % (b"x" * 100_000)
        (stream,) = hub
        for number in range(3 * QUEUE):
            hub.publish([Change(place, number, Kind.DAG_RUN_STATE, "d", "r", content)], hub.recent.positions)
            await anyio.lowlevel.checkpoint()
        waiting = len(stream._queue)
        told = await reader.next("reload")
        hub.publish([Change(place, 0, Kind.DAG_RUN_STATE, "d", "last", b"event: last\ndata: {}\n\n")], hub.recent.positions)
        await reader.next("last")

    assert waiting <= QUEUE
    assert told.json()["reason"] == LAGGING


async def test_a_revoked_token_ends_its_streams_and_no_other(live_site: MakeSite, relay: Relay) -> None:
    async with live_site() as site:
        token = await site.token(user="ben")
        async with site.anonymous(follow_redirects=True, timeout=None) as browser:
            await browser.post("/login", data={"token": token})
            async with (
                reading(site) as other,
                reading(site, token=token) as reader,
                aconnect_sse(browser, "GET", STREAM) as source,
            ):
                id_ = await site.history.database.run(_id_of, "ben")
                await site.history.database.run(credentials.revoke, id_)
                ended = [await reader.next("end"), await Reader(source.aiter_sse()).next("end")]
                await relay.send(run(1))
                assert await other.changes(1) == [("dag-run-state", "r", 1)]

    assert {event.json()["reason"] for event in ended} == {"the token or the session has ended: log in again"}


async def _id_of(db: Any, user: str) -> int:
    return next(row.id for row in await credentials.list_tokens(db) if row.username == user)


async def test_a_caller_may_have_so_many_streams(live_site: MakeSite) -> None:
    async with live_site(web_streams=1) as site:
        async with reading(site), reading(site, token=await site.token(user="ben")), site.program() as client:
            refused = await client.get(STREAM)
        await until(lambda: not list(site.service.hub), PATIENCE_S)
        async with reading(site):
            pass

    assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.TOO_MANY_REQUESTS, "30")
    assert "anna has 1 open streams" in refused.json()["detail"]


async def test_streams_end_with_their_server(live_site: MakeSite) -> None:
    async with AsyncExitStack() as opened:
        async with live_site() as site:
            reader = await opened.enter_async_context(reading(site))
        ended = await reader.next("end")

    assert ended.json()["reason"] == STOPPING


WRONG = [
    ({"kind": "dead-letter"}, HTTPStatus.BAD_REQUEST, "kind"),
    ({"coalesce": "perhaps"}, HTTPStatus.BAD_REQUEST, "coalesce"),
    ({"run": "r"}, HTTPStatus.BAD_REQUEST, "run"),
    ({"run_id": "latest"}, HTTPStatus.BAD_REQUEST, "run_id"),
    ({"dag_id": "nope"}, HTTPStatus.NOT_FOUND, "there is no DAG 'nope'"),
]


async def test_wrong_parameters_are_named(site: Site) -> None:
    async with site.program() as client:
        for params, status, expected in WRONG:
            with anyio.fail_after(60):  # a stream has no end
                answer = await client.get(STREAM, params=params)
            assert (answer.status_code, expected in answer.json()["detail"]) == (status, True), answer.text


async def test_a_stream_needs_a_caller(site: Site) -> None:
    async with site.anonymous() as client:
        assert (await client.get(STREAM)).status_code == HTTPStatus.UNAUTHORIZED


async def test_without_an_address_of_kafka_a_stream_says_so(site: Site) -> None:
    async with listening(site) as reader:
        told = await reader.next("away")

    assert "TIDEGATE_KAFKA_SERVERS is not set" in told.json()["servers"]["Kafka"]


async def test_without_its_topics_a_stream_says_so(make_site: MakeSite, kafka: str, topic_prefix: str) -> None:
    async with make_site(kafka_servers=kafka, topic_prefix=topic_prefix) as site, listening(site) as reader:
        while "has no topic" not in (await reader.next("away")).json()["servers"]["Kafka"]:
            pass
        await topics.create(kafka, topic_prefix, PARTITIONS, 1)
        await reader.next("live")


async def test_a_killed_broker_is_shown_and_costs_no_change(
    make_site: MakeSite, own_kafka: StartKafka, topic_prefix: str
) -> None:
    """The changes after the restart follow those before it."""
    broker = await own_kafka()
    await topics.create(broker.bootstrap, topic_prefix, PARTITIONS, 1)
    async with make_site(kafka_servers=broker.bootstrap, topic_prefix=topic_prefix) as site, reading(site) as reader:
        async with Sink(broker.bootstrap) as sink:
            await Relay(sink, topic_prefix).send(run(1))
        await reader.changes(1)
        await broker.kill()
        away = await reader.next("away")
        await broker.start()
        async with Sink(broker.bootstrap) as sink:
            await Relay(sink, topic_prefix).send(run(2))
        await reader.next("live")
        after = await reader.changes(1)

    assert "Kafka" in away.json()["servers"]
    assert after == [("dag-run-state", "r", 2)]


async def test_a_killed_database_is_shown(make_site: MakeSite, own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    await migrate(server.dsn)
    await make_known(server.dsn)
    async with make_site(postgres_dsn=server.dsn) as site, connect(server.dsn) as database:
        site.history.database = database
        async with listening(site) as reader:
            await reader.next("away")
            await server.kill()
            away = await reader.next("away")
            await server.start()
            back = await reader.next("away", "live")

    assert "Postgres" in away.json()["servers"]
    assert "Postgres" not in back.json()["servers"]


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process and its children stand still."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


async def test_a_frozen_database_is_shown_before_its_connections_end(make_site: MakeSite, own_postgres: StartPostgres) -> None:
    """Its connections stay open, for two minutes in tests."""
    server = await own_postgres()
    await migrate(server.dsn)
    await make_known(server.dsn)
    async with make_site(postgres_dsn=server.dsn) as site, connect(server.dsn) as database:
        site.history.database = database
        async with listening(site) as reader:
            await reader.next("away")
            with frozen(server.pid), anyio.fail_after(60):
                away = await reader.next("away")
            back = await reader.next("away", "live")

    assert away.json()["servers"]["Postgres"] == "Postgres has not answered for 3 s"
    assert "Postgres" not in back.json()["servers"]
