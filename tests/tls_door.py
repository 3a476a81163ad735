"""TLS in front of a server that has none: of a Postgres, whose wheel is built without it, and of Spark Connect."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tidegate.daemon.standalone.port import LOOPBACK

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
ACCEPTED = b"S"
CHUNK = 65_536


@asynccontextmanager
async def tls_door(postgres: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a door to the Postgres on a port."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST:
                writer.write(ACCEPTED)
                await writer.start_tls(context)
                await _join(reader, writer, *await asyncio.open_connection(LOOPBACK, postgres))
        writer.transport.abort()

    server = await asyncio.start_server(connect, LOOPBACK, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def tls_front(behind: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a listener with TLS for the server on a port."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await _join(reader, writer, *await asyncio.open_connection(LOOPBACK, behind))
        writer.transport.abort()

    async with await asyncio.start_server(connect, LOOPBACK, 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.StreamReader, requests: asyncio.StreamWriter
) -> None:
    ways = {asyncio.create_task(_pass_on(reader, requests)), asyncio.create_task(_pass_on(answers, writer))}
    _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in left:
        way.cancel()
    requests.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
