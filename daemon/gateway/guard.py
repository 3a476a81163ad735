"""What every request passes first: the check of its host and its size; and what every response carries."""

import math
import re
from collections.abc import Collection
from http import HTTPStatus
from uuid import uuid4

import anyio
import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.daemon.gateway.problem import SlowBodyError, TooLargeError, problem

BODY_BYTES = 1 << 20
"""The largest body of a request."""

HEAD_BYTES = 1 << 16
"""The largest head of a request. h11 counts one that comes in parts alone."""

BODY_S = 30.0
"""The time of the body of a request, once it is asked for."""

SLOW = f"the body did not come within {BODY_S:g} s; send it again"

TOO_LARGE = f"the body is larger than {BODY_BYTES} bytes"

LAST_PORT = 65535

_HOST = re.compile(r"(\[(?P<address>[^\]]*)\]|(?P<name>[^:]*))(:(?P<port>[0-9]{0,5}))?")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Answers only for the hosts that it serves, which stops DNS rebinding. A wrong host is answered with one line of text.

    The paths `of_any_host` are answered for every host: load balancers ask by the address of the process.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], of_any_host: Collection[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._of_any_host = frozenset(of_any_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, request_id = Headers(scope=scope), uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        refusal = _too_large(scope) or self._refusal(headers, scope["path"])
        app = self._app if refusal is None else refusal
        await app(scope, _limited(receive), _with_headers(send, request_id))

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        host = host_of(headers.get("host", ""))
        if host not in self._hosts and path not in self._of_any_host:
            detail = f"this server does not serve the host {host!r}; TIDEGATE_WEB_HOSTS names the hosts that it serves"
            return Response(f"{detail}\n", HTTPStatus.BAD_REQUEST, media_type="text/plain")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) <= BODY_BYTES:
            return None
        found = problem("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, TOO_LARGE)
        return Response(msgspec.json.encode(found), found.status, media_type="application/problem+json")


def _too_large(scope: Scope) -> Response | None:
    fields = sum(len(name) + len(value) for name, value in scope["headers"])
    if fields + len(scope["raw_path"]) + len(scope["query_string"]) <= HEAD_BYTES:
        return None
    return Response(f"the head is larger than {HEAD_BYTES} bytes\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


def host_of(header: str) -> str:
    """The host of a `Host` header or of a setting, without its port: `example.org`, `127.0.0.1`, `::1`.

    A text with a port that is none has the name of no host: it stays whole.
    """
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > LAST_PORT:
        return header.lower()
    return (found["address"] or found["name"] or "").rstrip(".").lower()


def _limited(receive: Receive) -> Receive:
    """A body without a length is counted while it arrives, and a slow one holds its connection for a bounded time."""
    received, more, ends_at = 0, True, math.inf

    async def limited() -> Message:
        nonlocal received, more, ends_at
        ends_at = min(ends_at, anyio.current_time() + BODY_S)
        message = await (_before(ends_at, receive) if more else receive())
        more = message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > BODY_BYTES:
            raise TooLargeError(TOO_LARGE)
        return message

    return limited


async def _before(ends_at: float, receive: Receive) -> Message:
    try:
        with anyio.fail_after(ends_at - anyio.current_time()):
            return await receive()
    except TimeoutError as error:
        raise SlowBodyError(SLOW) from error


def _with_headers(send: Send, request_id: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
            headers["x-request-id"] = request_id
        await send(message)

    return sending
