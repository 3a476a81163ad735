"""Bootstrap servers that accept connections and never answer, beside one that works."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import anyio
import pytest

from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.events import Publisher, topics
from tidegate.events.sink import Sink

CLIENTS = 4
"""Each asks the servers in an order of its own."""

CONNECT_S = 12.0


@pytest.fixture
def servers(kafka: str) -> Iterator[str]:
    with ExitStack() as listening:
        silent = [listening.enter_context(socket.socket()) for _ in range(2)]
        for each in silent:
            each.bind((LOOPBACK, 0))
            each.listen()
        yield ",".join([*(f"{LOOPBACK}:{each.getsockname()[1]}" for each in silent), kafka])


async def test_silent_brokers_leave_time_for_one_that_answers(servers: str) -> None:
    async def connect() -> None:
        async with Sink(servers, delivery_timeout_s=CONNECT_S) as sink:
            await sink.connect()

    async with anyio.create_task_group() as tg:
        for _ in range(CLIENTS):
            tg.start_soon(connect)


async def test_a_publisher_gets_past_them_in_its_own_time(servers: str, kafka: str, topic_prefix: str) -> None:
    await topics.create(kafka, topic_prefix, 1, 1)

    async with Publisher(servers, source="test", topic_prefix=topic_prefix) as publisher:
        published = await publisher.dataset_updated("s://a")

    assert published.source == "test"
