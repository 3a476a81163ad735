"""The log of one try of a task on stdout. Slow to import: reading it imports the backends."""

from contextlib import suppress

import anyio

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.logs import LocatedLog, LogReader
from tidegate.schemas.error import UnavailableError

POLL_S = 0.3


async def write(reader: LogReader, *, follow: bool) -> None:
    """Write the log. `follow` waits for the try to begin, and goes on until it has ended. Raises RequestError without a log."""
    attempt, backend, handle = await (_begun(reader) if follow else reader.locate())
    offset, ended, out = 0, not follow, output.ByteWriter()
    while True:
        chunk = await backend.logs(handle, offset)
        out.write(chunk.content)
        offset = chunk.next_offset
        if chunk.content and not chunk.complete:
            continue
        if chunk.complete or ended:
            return
        # A killed runner never completes its log; the daemon that notices its death ends the attempt.
        ended = await reader.has_ended(attempt)
        await anyio.sleep(POLL_S)


async def _begun(reader: LogReader) -> LocatedLog:
    """Wait for the try to begin, also while Postgres is away after the first look."""
    found = await reader.find()
    while found is None:
        await anyio.sleep(POLL_S)
        with suppress(UnavailableError):
            found = await reader.find()
    return found
