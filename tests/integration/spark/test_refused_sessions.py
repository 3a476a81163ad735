"""A Spark Connect server that opens no session: the task says why and where, and at once where another try mends nothing."""

import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import anyio.to_thread
import grpc
import msgspec
import pytest
import trustme

from tests.integration.spark.test_session import job
from tests.tls_door import tls_front
from tidegate.daemon.spark.runner import session
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.schemas.dag import SqlTask


@contextmanager
def server(code: grpc.StatusCode, details: str) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the methods that it was asked for. It answers each with this status."""
    asked: list[str] = []

    class Refusing(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            asked.append(handler_call_details.method.rpartition("/")[2])
            return grpc.unary_unary_rpc_method_handler(lambda _, context: context.abort(code, details))

    refusing = grpc.server(ThreadPoolExecutor(2))
    refusing.add_generic_rpc_handlers((Refusing(),))
    port = refusing.add_insecure_port(f"{LOOPBACK}:0")
    refusing.start()
    try:
        yield f"sc://{LOOPBACK}:{port}", asked
    finally:
        refusing.stop(None).wait()


def refusal(remote: str) -> str:
    """Why `begin` opens no session, for a task of the cluster `nightly`."""
    own = job(remote)
    spec = msgspec.structs.replace(own.spec, task=SqlTask(task_id="q", sql="SELECT 1", cluster="nightly"))
    with pytest.raises(TaskError) as refused:
        session.begin(msgspec.structs.replace(own, spec=spec))
    return str(refused.value)


def test_a_refused_login_ends_the_task_at_once_with_what_the_server_says() -> None:
    with server(grpc.StatusCode.UNAUTHENTICATED, "Invalid token") as (remote, asked):
        reason = refusal(remote)

    assert reason == f"the Spark server {remote} of cluster 'nightly' opened no session: UNAUTHENTICATED: Invalid token"
    assert len(asked) == 1


def test_a_server_that_is_unavailable_is_tried_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 2.5)
    with server(grpc.StatusCode.UNAVAILABLE, "it starts") as (remote, asked):
        reason = refusal(remote)

    assert reason.endswith(f"{remote} of cluster 'nightly' opened no session: UNAVAILABLE: it starts")
    assert len(asked) > 1


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.3)
    with socket.create_server((LOOPBACK, 0)) as deaf:
        reason = refusal(f"sc://{LOOPBACK}:{deaf.getsockname()[1]}")

    assert reason.endswith("opened no session: it did not answer within 0.3 s")


@pytest.fixture
async def untrusted(spark_connect: str) -> AsyncIterator[str]:
    """A server whose authority no client knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(LOOPBACK).configure_cert(context)
    context.set_alpn_protocols(["h2"])
    async with tls_front(int(spark_connect.rstrip("/").rpartition(":")[2]), context) as port:
        yield f"sc://{LOOPBACK}:{port}/;use_ssl=true"


async def test_a_certificate_that_is_not_trusted_ends_the_task_at_once(untrusted: str) -> None:
    began = anyio.current_time()
    reason = await anyio.to_thread.run_sync(partial(refusal, untrusted))

    assert re.search(r"opened no session: UNAVAILABLE: .*CERTIFICATE_VERIFY_FAILED", reason)
    assert anyio.current_time() - began < session.PATIENCE_S
