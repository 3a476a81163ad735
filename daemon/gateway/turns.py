"""One computation at a time for each caller: however many requests it sends, other callers share the process with one of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class Turns:
    """The callers that compute. It forgets a caller after its last turn."""

    def __init__(self) -> None:
        self._locks: dict[str, anyio.Lock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def of(self, caller: str) -> AsyncIterator[None]:
        """The turn of a request of the caller, after its earlier ones."""
        lock = self._locks.setdefault(caller, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(caller, None)
