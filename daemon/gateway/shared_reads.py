"""One read for all callers that ask for the same at the same time: a page that many users have open is read once for them."""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, NoReturn, TypeVar

import anyio

from tidegate.schemas.error import FATAL

R = TypeVar("R")


class _SharedRead:
    """A read that has begun or will begin. It `ended` without a result if its caller was cancelled: then another one reads."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.result: Callable[[], Any] | None = None


class SharedReads:
    """Of each key at most one read is running, and at most one more waits for its end, whatever the number of callers.

    A read that is running may have missed what its callers already know, so a caller joins only one that has not begun.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, _SharedRead] = {}
        self._running: dict[Hashable, _SharedRead] = {}

    async def read(self, key: Hashable, work: Callable[[], Awaitable[R]]) -> R:
        """The result of `work`, or of that of another caller with the same key. Raises what it raised."""
        while (joined := self._waiting.get(key)) is not None:
            await joined.ended.wait()
            if joined.result is not None:
                result: R = joined.result()
                return result
        return await self._lead(key, work)

    async def _lead(self, key: Hashable, work: Callable[[], Awaitable[R]]) -> R:
        mine = self._waiting[key] = _SharedRead()
        try:
            if (before := self._running.get(key)) is not None:
                await before.ended.wait()
            self._begin(key, mine)
            value = await work()
        except FATAL:
            raise
        except Exception as error:
            mine.result = partial(_raise, error)
            raise
        else:
            mine.result = lambda: value
            return value
        finally:
            self._end(key, mine)

    def _begin(self, key: Hashable, mine: _SharedRead) -> None:
        del self._waiting[key]
        self._running[key] = mine

    def _end(self, key: Hashable, mine: _SharedRead) -> None:
        for reads in (self._waiting, self._running):
            if reads.get(key) is mine:
                del reads[key]
        mine.ended.set()


def _raise(error: Exception) -> NoReturn:
    raise error
