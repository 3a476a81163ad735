"""A webhook receiver: a real HTTP server on loopback that checks what it gets and answers as it is told."""

import hmac
import threading
from collections.abc import Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from tests.waiting import until

HANG = 0
"""In place of a status: take the request, and never answer."""

ENDLESS = 299
"""A success whose answer never comes to its end."""

PATIENCE_S = 60.0
SECRET = "a secret"  # noqa: S105 - of a test


class Delivery(NamedTuple):
    """A request, and how it was answered."""

    headers: Mapping[str, str]
    body: bytes
    status: int

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]

    @property
    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = msgspec.json.decode(self.body)
        return said

    def is_signed_with(self, secret: str) -> bool:
        """As a receiver is told to verify it."""
        signed = f"{self.headers['x-tidegate-timestamp']}.".encode() + self.body
        expected = f"sha256={hmac.new(secret.encode(), signed, sha256).hexdigest()}"
        return hmac.compare_digest(expected, self.headers["x-tidegate-signature"])


class Hook:
    """Answers with `answers` in their order, and with 200 once there are none left."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[Delivery] = []
        self._free = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._free.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    async def until(self, count: int) -> list[Delivery]:
        """Wait for this number of requests."""
        await until(lambda: len(self.got) >= count, PATIENCE_S)
        return self.got

    def take(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status to answer with."""
        with self._lock:
            status = self.answers.pop(0) if self.answers else 200
            self.got.append(Delivery(headers, body, status))
        return status

    def wait(self) -> None:
        """Until the end."""
        self._free.wait()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = hook.take({name.lower(): value for name, value in self.headers.items()}, body)
                if status == HANG:
                    hook.wait()
                    return
                self.send_response(status)
                self.send_header("content-length", "1000" if status == ENDLESS else "0")
                self.end_headers()
                if status == ENDLESS:
                    hook.wait()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - as the base class has it
                return

        return Handler
