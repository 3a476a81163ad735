"""Between the daemons and Postgres: now and then the connection ends at a COMMIT, and nobody knows whether it was done."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from urllib.parse import urlsplit, urlunsplit

COMMIT = b"Q\x00\x00\x00\x0cCOMMIT;\x00"
CHUNK = 65536


class Proxy:
    """`cut_share` of the commits are cut; half of those reach Postgres. `cuts` counts them."""

    def __init__(self, dsn: str, random: Random) -> None:
        self._target = urlsplit(dsn)
        self._random = random
        self._address = ""
        self.cut_share = 0.0
        self.cuts = 0

    @property
    def dsn(self) -> str:
        """Postgres by way of the proxy."""
        return urlunsplit(self._target._replace(netloc=f"{self._target.username}@{self._address}"))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self._address = f"{host}:{port}"
        try:
            yield
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            return
        ways = [
            asyncio.create_task(self._pass_on(reader, requests, cuts=True)),
            asyncio.create_task(self._pass_on(answers, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            requests.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, cuts: bool = False) -> None:
        """Until one side ends, or is ended."""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if cuts and self._is_cut(chunk):
                    if self._random.random() < 0.5:
                        writer.write(chunk)
                        await self._until_sent(writer)
                    return
                writer.write(chunk)
                await writer.drain()

    def _is_cut(self, chunk: bytes) -> bool:
        is_cut = self.cut_share > 0 and chunk.endswith(COMMIT) and self._random.random() < self.cut_share
        self.cuts += is_cut
        return is_cut

    @staticmethod
    async def _until_sent(writer: asyncio.StreamWriter) -> None:
        while writer.transport.get_write_buffer_size():
            await asyncio.sleep(0)
