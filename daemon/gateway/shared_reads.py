"""One read for all callers that ask for the same at the same time: a page that many users have open is read once for them."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

R = TypeVar("R")


class SharedReads:
    """Of each key at most one read is running, and at most one more waits for its end, whatever the number of callers.

    A read that is running may have missed what its callers already know, so a caller joins only one that has not begun.
    Each read is a task, and goes on without a caller that ends. The owner closes it.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, work: Callable[[], Awaitable[R]]) -> R:
        """The result of `work`, or of that of another caller with the same key. Raises what it raised."""
        if (joined := self._waiting.get(key)) is None:
            joined = self._waiting[key] = asyncio.create_task(self._next(key, work))
            joined.add_done_callback(_retrieve_error)
        await asyncio.wait([joined])
        result: R = joined.result()
        return result

    async def _next(self, key: Hashable, work: Callable[[], Awaitable[R]]) -> R:
        if (before := self._running.get(key)) is not None:
            await asyncio.wait([before])
        self._running[key] = self._waiting.pop(key)
        try:
            return await work()
        finally:
            del self._running[key]

    async def aclose(self) -> None:
        """Cancel all reads, and wait for their end."""
        reads = [*self._waiting.values(), *self._running.values()]
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


def _retrieve_error(read: asyncio.Task[Any]) -> None:
    """asyncio logs errors that are not retrieved. The callers of this one may have ended."""
    if not read.cancelled():
        read.exception()
