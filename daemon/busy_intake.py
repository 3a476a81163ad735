"""Batches of intake go before decisions of the clock that are repeated at once.

A DAG with many pending events, or a backfill, starts run after run. Each decision takes milliseconds of this process and of
Postgres. An event of another DAG would wait for several of them: while its batch is applied, the next one begins.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class BusyIntake:
    """The batches of intake that this process applies now."""

    def __init__(self) -> None:
        self._batches = 0
        self._gap = anyio.Event()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """The block applies a batch."""
        if not self._batches:
            self._gap = anyio.Event()
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            if not self._batches:
                self._gap.set()

    async def wait_for_gap(self, most_s: float) -> None:
        """Return once no batch was applied for a moment, also if the next one has begun since, or after `most_s`."""
        if self._batches:
            with anyio.move_on_after(most_s):
                await self._gap.wait()
