"""A proxy in front of a broker in which one request stalls, and arrives after the client has given up its connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.storms.links import CHUNK, Link
from tidegate.daemon.standalone.port import LOOPBACK


class StallingProxy(Link):
    """The connection whose request contains `marker` stalls, once; all others pass."""

    def __init__(self, marker: bytes) -> None:
        super().__init__("stalls")
        self.stalled = asyncio.Event()
        self._marker = marker
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept: tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with super().open():
            yield
            if self._kept is not None:
                self._kept[2].transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(LOOPBACK, self.target)
        back = asyncio.create_task(self._pass_on(answers, writer, requests=False))
        try:
            with suppress(OSError):
                while chunk := await reader.read(CHUNK):
                    if self._marker in chunk and not self.stalled.is_set():
                        self._kept = (chunk, answers, requests)
                        self.stalled.set()
                        await reader.read()  # until the client gives up
                        return
                    requests.write(chunk)
                    await requests.drain()
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            if self._kept is None or self._kept[2] is not requests:
                requests.transport.abort()

    async def deliver(self) -> None:
        """Deliver the stalled request, and wait for the broker's answer."""
        assert self._kept is not None
        chunk, answers, requests = self._kept
        requests.write(chunk)
        await requests.drain()
        assert await answers.read(CHUNK)
