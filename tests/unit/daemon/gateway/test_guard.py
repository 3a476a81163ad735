"""The host of a request."""

from http import HTTPStatus

import pytest
from starlette.responses import Response
from starlette.types import Message

from tidegate.daemon.gateway.guard import HEAD_BYTES, Guard, host_of


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org:8780", "example.org"),
        ("example.org.", "example.org"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:8780", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("", ""),
        ("example.org:", "example.org"),
        ("example.org:65535", "example.org"),
        ("example.org:65536", "example.org:65536"),
        ("example.org:99999999", "example.org:99999999"),
        ("example.org:http", "example.org:http"),
        ("[::1]:65536", "[::1]:65536"),
        ("evil.example@localhost", "evil.example@localhost"),
    ],
)
def test_a_header_names_a_host(header: str, host: str) -> None:
    assert host_of(header) == host


@pytest.mark.parametrize(
    ("more", "status"), [(0, HTTPStatus.NO_CONTENT), (HEAD_BYTES, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)]
)
async def test_a_head_has_a_limit_also_in_one_piece(more: int, status: HTTPStatus) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"a"), (b"x-long", b"x" * more)]
    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": headers}
    await Guard(Response(status_code=HTTPStatus.NO_CONTENT), ["a"])(scope, never, send)

    assert sent[0]["status"] == status


async def never() -> Message:
    raise AssertionError("the body is not asked for")
