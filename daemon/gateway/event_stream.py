"""The response of a stream: server-sent events, until its client is gone or the stream has ended."""

from http import HTTPStatus

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tidegate.daemon.live.hub import Hub, OpenStream
from tidegate.daemon.live.message import RETRY

PACE_S = 0.25
"""The time between two messages of a stream that coalesces."""

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""No proxy keeps the events back."""


class EventStream(Response):
    """Closes the stream in any case. A client that does not read delays nothing but its own stream."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, stream: OpenStream) -> None:
        super().__init__(None, HTTPStatus.OK, HEADERS)
        del self.headers["content-length"]
        self._hub = hub
        self._stream = stream

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_disconnected, receive, tasks.cancel_scope)
                await self._send(send)
                tasks.cancel_scope.cancel()
        finally:
            self._hub.close(self._stream)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_body(RETRY))
        while not self._stream.has_ended:
            await send(_body(await self._stream.take()))
            if self._stream.coalesces:
                await anyio.sleep(PACE_S)
        await send(_body(b"", more=False))


def _body(content: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def _until_disconnected(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
