"""An event loop whose time moves only when it is moved, and which says when there is nothing left to do at this moment.

Everything in the product that sleeps, waits with a limit or looks at the monotonic clock goes by it.
"""

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from math import ceil
from typing import TypeVarTuple, Unpack

Given = TypeVarTuple("Given")

MICRO = 1_000_000
SILENCE_S = 0.002
"""Of real time: after that it is asked why a server has not answered yet."""


class Selector(selectors.DefaultSelector):
    """The loop waits here when nothing is ready: the only moment at which one can know that."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: asyncio.Future[None] | None = None
        self.silence: asyncio.Future[None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return []  # what a server has said is heard when nothing else can run: that saves two system calls of three
        if self.idle is not None:
            self.idle.set_result(None)
            self.idle = None
            return super().select(0)
        events = super().select(SILENCE_S)
        if not events and self.silence is not None:
            self.silence.set_result(None)
            self.silence = None
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """Servers are waited for in real time, which is none here."""

    def __init__(self) -> None:
        self._now_us = 0
        self._selection = Selector()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        super().__init__(self._selection)

    def begin(self) -> None:
        """Reset the time; no coroutine may be asleep."""
        self._now_us = 0
        self._timers.clear()
        self._numbers = count()

    def time(self) -> float:
        return self._now_us / MICRO

    def call_at(
        self, when: float, callback: Callable[[Unpack[Given]], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Timers of the same microsecond fire in the order in which they were set."""
        at_us, number = _micros(when), next(self._numbers)
        handle = super().call_at((at_us - 0.5) / MICRO + number * 1e-12, callback, *args, context=context)
        heappush(self._timers, (at_us, number, handle))
        return handle

    def next_timer(self) -> float | None:
        """The time of the next timer."""
        while self._timers and (self._timers[0][2].cancelled() or self._timers[0][0] <= self._now_us):
            heappop(self._timers)
        return self._timers[0][0] / MICRO if self._timers else None

    def move_to(self, at: float) -> None:
        """Timers up to then fire in the order of their times."""
        self._now_us = max(_micros(at), self._now_us)

    async def idle(self) -> None:
        """Return when all that could run has run, up to where it waits for a decision, a server, or for time."""
        self._selection.idle = self.create_future()
        await self._selection.idle

    def silence(self) -> "asyncio.Future[None]":
        """Done when no server has said anything for a moment."""
        self._selection.silence = self.create_future()
        return self._selection.silence


def _micros(at: float) -> int:
    """The first microsecond that is not before it."""
    found = ceil(at * MICRO)
    return found if found / MICRO >= at else found + 1
