"""Slots for files to parse."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class Slots:
    """A limited number of slots. The newest waiting file and the oldest one take turns.

    So a file that has just changed passes thousands of waiting ones, and those still get half of the slots.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()
        self._is_for_newest = True

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A slot, for the duration of the block."""
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            yield
        finally:
            self._pass_on()

    async def _turn(self) -> None:
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._pass_on()
            else:
                self._waiting.remove(turn)
            raise

    def _pass_on(self) -> None:
        if not self._waiting:
            self._free += 1
            return
        turn = self._waiting.pop() if self._is_for_newest else self._waiting.popleft()
        self._is_for_newest = not self._is_for_newest
        turn.set()
