"""Clients that send slowly hold their connections for a bounded time, and no others."""

import asyncio
import socket
from functools import partial
from http import HTTPStatus

import anyio
import httpx
import pytest

from tests.integration.web.conftest import MakeSite, Site
from tests.waiting import until
from tidegate.daemon.gateway import guard
from tidegate.daemon.web import protocol, serve

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

HEAD = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n"


async def opened(site: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = site.address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def answer_to(site: Site, *parts: bytes) -> bytes:
    """What the server sends until it closes the connection, to a client that sends some parts, and then nothing."""
    reader, writer = await opened(site)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await anyio.sleep(0.01)
    with anyio.fail_after(60):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("parts", [(), (b"GET /login HT",), (b"GET /login HTTP/1.1\r\n", b"Host: 127.0.0.1\r\n")])
async def test_a_connection_without_a_complete_head_is_closed(
    site: Site, parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)

    assert await answer_to(site, *parts) == b""


async def test_a_second_request_without_a_complete_head_is_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 2.0)

    answer = await answer_to(site, b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /login HT")

    assert answer.count(b"HTTP/1.1 200 OK") == 1


async def test_a_body_that_does_not_come_is_not_awaited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_S", 0.2)

    answer = await answer_to(site, HEAD, b"token=")

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come" in answer


async def test_a_client_that_does_not_read_is_closed(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "UNREAD_S", 1)
    requests = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 40
    async with make_site() as site:
        host, port = site.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(requests)
            await until(partial(is_refused, client), 60)


def is_refused(client: socket.socket) -> bool:
    """Whether the other side has closed the connection, which it says to one that sends."""
    try:
        client.send(b"G")
    except OSError:
        return True
    return False


async def test_changes_that_wait_for_a_lock_delay_no_page(site: Site) -> None:
    changed: list[httpx.Response] = []

    async def change(client: httpx.AsyncClient) -> None:
        changed.append(await client.put("/api/v1/pools/default_pool", json={"slots": 5}))

    pool = site.history.database.pool
    async with (
        site.program() as client,
        pool.acquire() as connection,
        anyio.create_task_group() as group,
        connection.transaction(),
    ):
        await connection.execute("SELECT FROM pool WHERE name = 'default_pool' FOR UPDATE")
        for _ in range(8):
            group.start_soon(change, client)
        while await pool.fetchval(WAITING) < 4:
            await anyio.sleep(0.05)
        answer, before = await client.get("/dags"), len(changed)

    assert (answer.status_code, before) == (HTTPStatus.OK, 0)


async def test_a_head_and_a_body_in_time_are_answered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that the request itself takes does not count."""
    monkeypatch.setattr(protocol, "HEAD_S", 10.0)
    reader, writer = await opened(site)
    for part in (HEAD[:20], HEAD[20:], b"token=", b"a" * 44):
        writer.write(part)
        await writer.drain()
        await anyio.sleep(0.01)
    status = await reader.readline()
    writer.close()

    assert int(status.split()[1]) == HTTPStatus.UNAUTHORIZED
