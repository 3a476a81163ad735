"""How every Kafka client here starts, stops and fails: within a bounded time and with one sentence."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_tb
from typing import Any

import anyio
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)

from tidegate.schemas.error import RequestError, UnavailableError

REQUEST_TIMEOUT_MS = 10_000
STOP_TIMEOUT_S = 5.0

_AWAY = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)


@contextmanager
def kafka_at(servers: str) -> Iterator[None]:
    """Whatever the client raises inside becomes UnavailableError."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise UnavailableError(sentence(servers, error)) from error


def sentence(servers: str, error: BaseException) -> str:
    """What went wrong between us and Kafka, and what to do about it."""
    match error:
        case UnknownTopicOrPartitionError():
            return f"Kafka at {servers} does not have the topic; `tidegate topics create` makes it"
        case _ if isinstance(error, _AWAY):
            return f"Kafka does not answer at {servers}; check that it runs and that the address is right"
        case OSError():
            return f"Kafka at {servers} did not answer in time"
        case _:
            return f"Kafka at {servers} refused: {error}"


async def start(client: Any, servers: str, timeout_s: float) -> None:
    """Start a consumer, producer or admin client, or leave nothing of it behind.

    Raises UnavailableError after `timeout_s` at the latest; RequestError where the address cannot be one.
    """
    try:
        with kafka_at(servers), anyio.fail_after(timeout_s):
            _check(servers)
            _share_time(_sockets(client), servers, timeout_s)
            _notice_ends(_sockets(client))
            await _begin(client)
    except BaseException:
        await stop(client)
        raise


async def _begin(client: Any) -> None:
    try:
        await client.start()
    except BaseException as error:
        # A cancelled start leaves a connection open that nothing but its own frame knows.
        for frame, _ in walk_tb(error.__traceback__):
            if (left := frame.f_locals.get("bootstrap_conn")) is not None:
                left.close()
        raise


def _share_time(sockets: Any, servers: str, timeout_s: float) -> None:
    """One of several servers that stands still must leave time to ask the others: the client asks one after the other."""
    bootstrap, patience_ms = sockets.bootstrap, sockets._request_timeout_ms
    others = servers.count(",")

    async def bootstrap_in_time() -> None:
        sockets._request_timeout_ms = min(patience_ms, timeout_s * 1000 / (others + 2)) if others else patience_ms
        try:
            await bootstrap()
        finally:
            sockets._request_timeout_ms = patience_ms

    sockets.bootstrap = bootstrap_in_time


def _notice_ends(sockets: Any) -> None:
    """A connection that has ended is none, even where the client has not been told of it yet.

    On uvloop writing to it raises RuntimeError, which the client takes for a fault of its own (aiokafka #1038): a daemon, or a
    task in the background that nobody sees, would end of it.
    """
    connection_to = sockets._get_conn

    async def open_connection_to(node_id: int, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, no_hint: bool = False) -> Any:
        known = sockets._conns.get((node_id, group))
        if known is not None and known._writer is not None and known._writer.is_closing():
            known.close(reason=CloseReason.CONNECTION_BROKEN)
        return await connection_to(node_id, group=group, no_hint=no_hint)

    sockets._get_conn = open_connection_to


def _sockets(client: Any) -> Any:
    return client.client if hasattr(client, "client") else client._client


async def stop(client: Any) -> None:
    """Close a client, cancelled or not, in bounded time. Never raises for what Kafka does meanwhile."""
    sockets = _sockets(client)
    # A polite end first; when Kafka does not take part in it, the connections go anyway.
    for finish in (client.close if hasattr(client, "close") else client.stop, sockets.close):
        if await _ended(finish):
            return


async def _ended(finish: Callable[[], Awaitable[None]]) -> bool:
    """Whether it came to its end. The client may raise a cancellation that nobody asked for: a task of its own keeps it in."""
    ended = False

    async def run() -> None:
        nonlocal ended
        with suppress(KafkaError, OSError):
            await finish()
            ended = True

    with anyio.move_on_after(STOP_TIMEOUT_S, shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
    return ended


def _check(servers: str) -> None:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise RequestError(f"{servers!r} is no Kafka address; write host:port, several with commas between")
