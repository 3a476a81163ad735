"""Calls of the spool in threads: a disk or file server that hangs holds up no duty, and not ever more threads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from tidegate.schemas.error import SPOOL, UnavailableError

T = TypeVar("T")

THREADS = 4

LIMIT_S = 300.0
"""More than any call takes, such as a look at the spools of two weeks on a file server. Less than the time for a submit."""


class SpoolThreads:
    """At most `THREADS` calls at a time. A call that takes longer than `LIMIT_S` is given up; its thread may hang on.

    While `THREADS` of them hang, no other call is begun.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._limiter = CapacityLimiter(THREADS)
        self._hanging: list[_Call[Any]] = []

    async def run(self, work: Callable[[], T]) -> T:
        """Raises UnavailableError when the spool cannot be read or written, or does not answer."""
        self._hanging = [call for call in self._hanging if call.is_running]
        if len(self._hanging) >= THREADS:
            raise self._unavailable(f"{len(self._hanging)} calls hang")
        call = _Call(work)
        with anyio.move_on_after(LIMIT_S):
            try:
                return await to_thread.run_sync(call, limiter=self._limiter, abandon_on_cancel=True)
            except OSError as error:
                raise self._unavailable(str(error)) from error
        self._hanging.append(call)
        raise self._unavailable(f"it has not answered for {LIMIT_S:g} s")

    def _unavailable(self, problem: str) -> UnavailableError:
        return UnavailableError(f"the spool {self._root} cannot be used: {problem}", server=SPOOL)


class _Call(Generic[T]):
    """A call, and whether its thread is in it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.is_running = False

    def __call__(self) -> T:
        self.is_running = True
        try:
            return self._work()
        finally:
            self.is_running = False
