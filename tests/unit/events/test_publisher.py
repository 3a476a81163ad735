"""Calls that a publisher refuses before sending."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from tidegate.events import Publisher, SyncPublisher, Update
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.wire.event import PRODUCER_SOURCE

NOWHERE = "127.0.0.1:1"

CIRCULAR: dict[str, Any] = {}
CIRCULAR["itself"] = CIRCULAR

Call = Callable[[Publisher], Awaitable[Any]]

REFUSED: list[tuple[Call, str]] = [
    (lambda p: p.dataset_updated(""), "length >= 1 - at `$.uri`"),
    (lambda p: p.dataset_updated("two words"), "at `$.uri`"),
    (lambda p: p.dataset_updated("lake://a", {"x": object()}), "object is unsupported"),
    (lambda p: p.dataset_updated("lake://a", {"x": "\0"}), "NUL"),
    (lambda p: p.dataset_updated("lake://a", {"x": "y" * (1 << 20)}), "at most 1048576 are accepted"),
    (lambda p: p.dataset_updated("lake://a", event_id="i" * 600), "CloudEvents id needs"),
    (lambda p: p.dataset_updated("lake://a", time=datetime(2026, 3, 29)), "has no time zone"),  # noqa: DTZ001 - the mistake
    (lambda p: p.dataset_updated("lake://a", event_id="\udce4"), "surrogates not allowed"),
    (lambda p: p.dataset_updated("lake://a", CIRCULAR), "recursion depth exceeded"),
    (lambda p: p.task_finished(uuid4(), "failed", dag_id="d", run_id="\udce4", token=""), "surrogates not allowed"),
    (lambda p: p.dag_file_changed(""), "at `$.path`"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
async def test_what_no_daemon_would_understand_is_refused(call: Call, says: str) -> None:
    publisher = Publisher(NOWHERE, source="test")

    with pytest.raises(RequestError, match="event") as caught:
        await call(publisher)

    assert says in str(caught.value)


async def test_of_many_updates_the_one_to_blame_is_named() -> None:
    publisher = Publisher(NOWHERE, source="test")

    with pytest.raises(
        RequestError, match=r"^update 1 \(counted from 0\), 'two words': this event cannot be published: .*\$\.uri"
    ):
        await publisher.datasets_updated([Update("lake://a"), Update("two words")])


async def test_an_update_that_fits_only_without_its_headers_is_refused() -> None:
    publisher = Publisher(NOWHERE, source="test")

    with pytest.raises(RequestError, match="at most 1047552 are possible"):
        await publisher.dataset_updated("lake://a", {"x": "y" * ((1 << 20) - 1100)})


async def test_a_publisher_that_is_not_open_refuses_calls() -> None:
    publisher = Publisher(NOWHERE, source="test")

    with pytest.raises(RequestError, match="not open: it was closed, or used outside its `with` block"):
        await publisher.dataset_updated("lake://a")


def test_a_sync_publisher_that_is_not_open_refuses_calls() -> None:
    publisher = SyncPublisher(NOWHERE, source="test")

    with pytest.raises(RequestError, match="not open: it was closed, or used outside its `with` block"):
        publisher.dataset_updated("lake://a")


@pytest.mark.parametrize("source", ["", "a\nb"])
def test_a_publisher_needs_the_name_of_its_program(source: str) -> None:
    with pytest.raises(RequestError, match="needs a source"):
        Publisher(NOWHERE, source=source)


def test_a_publisher_cannot_have_the_source_of_the_events_of_tasks() -> None:
    with pytest.raises(RequestError, match=r"^the source 'tidegate' is that of the events which Tidegate publishes for tasks"):
        SyncPublisher(NOWHERE, source=PRODUCER_SOURCE)


@pytest.mark.parametrize("servers", ["", "localhost", "localhost:", "localhost:kafka", "a:1,b"])
async def test_an_address_that_cannot_be_one_is_refused_at_once(servers: str) -> None:
    with pytest.raises(RequestError, match="is not a Kafka address; write host:port"):
        async with Publisher(servers, source="test"):
            pass


async def test_an_unavailable_kafka_is_reported_within_the_timeout() -> None:
    with pytest.raises(UnavailableError, match=r"Kafka does not answer at 127.0.0.1:1; .* \(tried for 0.3 s\)"):
        async with Publisher(NOWHERE, source="test", timeout_s=0.3):
            pass


def test_an_unavailable_kafka_is_reported_without_asyncio() -> None:
    with (
        pytest.raises(UnavailableError, match=r"Kafka does not answer at 127.0.0.1:1"),
        SyncPublisher(NOWHERE, source="test", timeout_s=0.3),
    ):
        pass
