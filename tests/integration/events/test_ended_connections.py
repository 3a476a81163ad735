"""Connections that end when something is being sent: on uvloop the client learns of it by an error that it does not expect."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from tidegate.events.source import Partition, Source

T = TypeVar("T")


def on_uvloop(work: Coroutine[Any, Any, T]) -> T:
    """As the daemon runs."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


async def reset(client: Any) -> None:
    """All its connections have been reset, and nothing of the client has run since."""
    for connection in client._conns.values():
        reader = connection._reader
        # What uvloop tells the reader of a reset; of an end that is our own it would tell that the stream is over.
        reader.feed_eof = lambda reader=reader: reader.set_exception(ConnectionResetError("reset"))
        connection._writer.transport.abort()
    await asyncio.sleep(0)
    assert all(connection.connected() for connection in client._conns.values())
    for connection in client._conns.values():
        with pytest.raises(RuntimeError):
            connection._writer.write(b"")


def test_a_question_to_a_connection_that_was_reset_goes_by_a_new_one(kafka: str, topic: str) -> None:
    partitions = [Partition(topic, number) for number in range(3)]

    async def ask() -> Any:
        async with Source(kafka) as source:
            before = await source.bounds(partitions)
            await reset(source._metadata_consumer._client)
            return before, await source.bounds(partitions)

    before, after = on_uvloop(ask())

    assert before == after
