"""Start and stop of Kafka clients in bounded time, and the translation of their errors."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_tb
from typing import Any

import anyio
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from tidegate.events.security import PLAINTEXT, refusal
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity

REQUEST_TIMEOUT_MS = 10_000
STOP_TIMEOUT_S = 5.0


@contextmanager
def translated_errors(servers: str) -> Iterator[None]:
    """Raise the errors of the Kafka client as UnavailableError."""
    try:
        yield
    except (KafkaError, OSError) as error:
        raise UnavailableError(describe(servers, error)) from error


def describe(servers: str, error: BaseException) -> str:
    """An error of the Kafka client, as a sentence for users."""
    match error:
        case UnknownTopicOrPartitionError():
            return f"Kafka at {servers} does not have the topic; create it with `tidegate topics create`"
        case KafkaConnectionError() | KafkaTimeoutError() | NodeNotReadyError() | RequestTimedOutError():
            return f"Kafka does not answer at {servers}; check that it runs and that the address is right"
        case TopicAuthorizationFailedError():
            return _no_right(servers, f"the topic {_topics(error)}")
        case GroupAuthorizationFailedError():
            return _no_right(servers, "its group")
        case TransactionalIdAuthorizationFailed():
            return _no_right(servers, "its transactional id")
        case TimeoutError():
            return f"Kafka at {servers} did not answer in time"
        case OSError():
            return f"Kafka at {servers} cannot be reached: {error.strerror or error}"
        case _:
            return f"Kafka at {servers} refused: {error}"


def _topics(error: KafkaError) -> str:
    """The topics of a refusal, which the client names by one text or by a set."""
    named = error.args[0] if error.args else ()
    return named if isinstance(named, str) else ", ".join(sorted(named))


def _no_right(servers: str, what: str) -> str:
    return f"Kafka at {servers} does not let its user use {what}: add an ACL; `tidegate doctor` names the ACLs that daemons need"


async def refuse_hidden(client: AIOKafkaClient, topic: str) -> None:
    """Raise TopicAuthorizationFailedError for a topic that Kafka leaves out of lists, because the user may not describe it."""
    request = MetadataRequest([topic], allow_auto_topic_creation=False)
    response = await client.send(client.get_random_node(), request)
    if any(for_code(code) is TopicAuthorizationFailedError for code, *_ in response.topics):
        raise TopicAuthorizationFailedError(topic)


async def start(client: Any, servers: str, timeout_s: float, security: KafkaSecurity = PLAINTEXT) -> None:
    """Start a consumer, producer or admin client, which has the options of `security`; a failed start closes it.

    Raises UnavailableError after at most `timeout_s`, and RequestError for an invalid address.
    """
    try:
        with translated_errors(servers), anyio.fail_after(timeout_s):
            _check_addresses(servers)
            _divide_bootstrap_timeout(network_client(client), servers, timeout_s)
            _replace_closed_connections(network_client(client))
            await _start(client, servers, security)
    except BaseException:
        await stop(client)
        raise


async def _start(client: Any, servers: str, security: KafkaSecurity) -> None:
    try:
        await client.start()
    except KafkaConnectionError as error:
        if (why := await refusal(network_client(client), security)) is not None:
            raise UnavailableError(f"Kafka at {servers} cannot be used: {why}") from error
        raise
    except BaseException as error:
        # A cancelled start leaves open a connection that only its own frame refers to.
        for frame, _ in walk_tb(error.__traceback__):
            if (left := frame.f_locals.get("bootstrap_conn")) is not None:
                left.close()
        raise


def _divide_bootstrap_timeout(network: Any, servers: str, timeout_s: float) -> None:
    """Divide the timeout among the bootstrap servers: the client asks one after the other, and one may never answer."""
    bootstrap, timeout_ms = network.bootstrap, network._request_timeout_ms
    others = servers.count(",")

    async def bootstrap_in_time() -> None:
        network._request_timeout_ms = min(timeout_ms, timeout_s * 1000 / (others + 2)) if others else timeout_ms
        try:
            await bootstrap()
        finally:
            network._request_timeout_ms = timeout_ms

    network.bootstrap = bootstrap_in_time


def _replace_closed_connections(network: Any) -> None:
    """Replace a connection whose transport has closed before the client notices it.

    On uvloop, writing to such a connection raises RuntimeError, which the client does not handle (aiokafka #1038): it would end
    the daemon, or silently one of the client's background tasks.
    """
    connection_to = network._get_conn

    async def open_connection_to(node_id: int, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, no_hint: bool = False) -> Any:
        known = network._conns.get((node_id, group))
        if known is not None and known._writer is not None and known._writer.is_closing():
            known.close(reason=CloseReason.CONNECTION_BROKEN)
        return await connection_to(node_id, group=group, no_hint=no_hint)

    network._get_conn = open_connection_to


def network_client(client: Any) -> Any:
    """The part of a consumer, producer or admin client that has the connections and what the brokers have told."""
    return client.client if hasattr(client, "client") else client._client


async def stop(client: Any) -> None:
    """Close a client in bounded time, also in a cancelled scope. Errors of Kafka are ignored."""
    network = network_client(client)
    # An orderly close first; if Kafka does not answer it, the connections are closed alone.
    for finish in (client.close if hasattr(client, "close") else client.stop, network.close):
        if await _finished(finish):
            return


async def _finished(finish: Callable[[], Awaitable[None]]) -> bool:
    """Whether `finish` returned within STOP_TIMEOUT_S. In a task of its own: the client may raise CancelledError."""
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


def _check_addresses(servers: str) -> None:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise RequestError(f"{servers!r} is not a Kafka address; write host:port, and commas between several")
