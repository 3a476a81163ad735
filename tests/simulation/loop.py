"""An event loop whose time moves only when it is moved, and which says when there is nothing left to do at this moment.

Everything in the product that sleeps, waits with a limit or looks at the monotonic clock goes by it.
"""

import asyncio
import selectors
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heappop, heappush
from itertools import count
from math import ceil
from typing import Any, TypeVarTuple, Unpack

from tests.simulation.wire import Wire

Given = TypeVarTuple("Given")

MICRO = 1_000_000


class Soon(asyncio.Handle):
    """A handle that is made without a look at the debug mode: each step makes several."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "VirtualLoop", context: Context | None
    ) -> None:
        self._context = context if context is not None else copy_context()
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class Later(asyncio.TimerHandle):
    """The same of a timer: each statement sets and cancels several. The loop passes over a cancelled one when its time comes."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], loop: "VirtualLoop", context: Context
    ):
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._when = when
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True


class VirtualLoop(asyncio.SelectorEventLoop):
    """Servers are waited for in real time, which is none here.

    The kernel is asked neither for the time nor, while Python has work or all waits for a decision, for what has come.
    """

    _ready: "deque[asyncio.Handle]"

    def __init__(self) -> None:
        self._now_us = 0
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._idle: asyncio.Future[None] | None = None
        self._sockets = selectors.DefaultSelector()
        super().__init__(self._sockets)

    def _run_once(self) -> None:
        """What is ready, or is so by the time, in the order in which it got ready."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][0] <= self._now_us:
            ready.append(heappop(timers)[2])
        if not ready:
            self._wait()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _wait(self) -> None:
        """Nothing is ready: the only moment at which one can know that."""
        if self._idle is None:
            self._process_events(self._sockets.select())  # type: ignore[attr-defined]  # that of asyncio's loop
        else:
            self._idle.set_result(None)
            self._idle = None

    @property
    def now_us(self) -> int:
        return self._now_us

    def begin(self) -> None:
        """Reset the time; no coroutine may be asleep."""
        self._now_us = 0
        self._timers.clear()
        self._numbers = count()

    def time(self) -> float:
        return self._now_us / MICRO

    def call_soon(
        self, callback: Callable[[Unpack[Given]], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        handle = Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Given]], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Timers of the same microsecond fire in the order in which they were set."""
        at_us = _micros(when)
        handle = Later(at_us / MICRO, callback, args, self, context if context is not None else copy_context())
        heappush(self._timers, (at_us, next(self._numbers), handle))
        return handle

    def _asyncgen_firstiter_hook(self, agen: object) -> None:
        """The generators of a schedule end with its coroutines: no list of them is kept."""

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
        self._idle = self.create_future()
        await self._idle

    async def create_connection(self, factory: Any, host: str, port: int) -> Any:  # type: ignore[override]  # as asyncpg calls it
        return self._wired(socket.create_connection((host, port)), factory())

    async def create_unix_connection(self, factory: Any, path: str) -> Any:  # type: ignore[override]  # as above
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        return self._wired(connected, factory())

    def _wired(self, connected: socket.socket, protocol: asyncio.Protocol) -> tuple[Wire, asyncio.Protocol]:
        self.wire = Wire(self, connected, protocol)
        return self.wire, protocol


def _micros(at: float) -> int:
    """The first microsecond that is not before it."""
    found = ceil(at * MICRO)
    return found if found / MICRO >= at else found + 1
