"""Between a daemon and a server: the way that can stand still, become slow, or end when a transaction is to be committed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from tidegate.daemon.standalone.port import LOOPBACK

BEGIN = b"Q\x00\x00\x00\x0bBEGIN;\x00"
COMMIT = b"Q\x00\x00\x00\x0cCOMMIT;\x00"
ROLLBACK = b"Q\x00\x00\x00\x0eROLLBACK;\x00"
SYNC = b"S\x00\x00\x00\x04"
"""The end of a statement with arguments. Outside of a transaction it commits."""

CHUNK = 65536


class Link:
    """The way to a server, which listens on loopback at `target`; `port` is where the way begins, once it is open.

    `delay_s`: how long every piece of what is sent takes, in each direction.
    """

    def __init__(self, name: str, target: int = 0) -> None:
        self.name = name
        self.target = target
        self.port = 0
        self.delay_s = 0.0
        self._flows = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    def stand_still(self) -> None:
        """Drop everything silently. New connections are accepted and get no answer."""
        self._flows.clear()

    def flow(self) -> None:
        """What was held up arrives, as it does when a network is whole again."""
        self._flows.set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        self._flows.set()
        server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
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
        await self._flows.wait()
        try:
            answers, requests = await asyncio.open_connection(LOOPBACK, self.target)
        except OSError:
            return
        ways = [
            asyncio.create_task(self._pass_on(reader, requests, requests=True)),
            asyncio.create_task(self._pass_on(answers, writer, requests=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            requests.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, requests: bool) -> None:
        """Until one side ends, or is ended."""
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._flows.wait()
                if requests and await self._ends_at(chunk, writer):
                    return
                writer.write(chunk)
                await writer.drain()

    async def _ends_at(self, _chunk: bytes, _writer: asyncio.StreamWriter) -> bool:
        """Whether the connection ends instead of passing on this piece of a request."""
        return False


class PostgresLink(Link):
    """`cut_share` of the commits are cut, so that the daemon does not know their outcome: half of those reach Postgres.

    `cuts` counts them.
    """

    def __init__(self, name: str, dsn: str, random: Random) -> None:
        self._server = urlsplit(dsn)
        super().__init__(name, self._server.port or 0)
        self._random = random
        self.cut_share = 0.0
        self.cuts = 0
        self._in_transaction: WeakSet[asyncio.StreamWriter] = WeakSet()

    @property
    def dsn(self) -> str:
        """Postgres by this way."""
        return urlunsplit(self._server._replace(netloc=f"{self._server.username}@{LOOPBACK}:{self.port}"))

    async def _ends_at(self, chunk: bytes, writer: asyncio.StreamWriter) -> bool:
        if not (self._commits(chunk, writer) and self._random.random() < self.cut_share):
            return False
        self.cuts += 1
        if self._random.random() < 0.5:
            writer.write(chunk)
            while writer.transport.get_write_buffer_size():
                await asyncio.sleep(0)
        return True

    def _commits(self, chunk: bytes, writer: asyncio.StreamWriter) -> bool:
        if chunk.endswith(BEGIN):
            self._in_transaction.add(writer)
        elif chunk.endswith((COMMIT, ROLLBACK)):
            self._in_transaction.discard(writer)
        return chunk.endswith(COMMIT) or (chunk.endswith(SYNC) and writer not in self._in_transaction)
