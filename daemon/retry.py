"""The retry policy of all duties: report the outage, pause, try again."""

import random
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import anyio

from tidegate.daemon.outage import Outages
from tidegate.schemas.error import UnavailableError

P = ParamSpec("P")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Backoff:
    """Pauses that double with full jitter, up to `LONGEST_PAUSE_S`; `reset` starts again at the first."""

    def __init__(self) -> None:
        self._failures = 0

    async def pause(self) -> None:
        self._failures += 1
        longest = min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        await anyio.sleep(random.uniform(FIRST_PAUSE_S, longest))  # noqa: S311, not a secret

    def reset(self) -> None:
        self._failures = 0


class Retry:
    """Tries of one duty. UnavailableError is an outage; every other exception passes.

    `ends_outages`: a success proves that the servers answer which failed before. False where a step may skip them.
    """

    def __init__(self, outages: Outages, *, ends_outages: bool = False) -> None:
        self._outages = outages
        self._ends_outages = ends_outages
        self._lost: set[str] = set()
        self._backoff = Backoff()

    async def once(self, step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of one try; None after an outage and one pause."""
        try:
            result = await step(*args, **kwargs)
        except UnavailableError as error:
            self._lost.add(error.server)
            self._outages.begin(error)
            await self._backoff.pause()
            return None
        self._backoff.reset()
        if self._ends_outages:
            self._outages.end_all(self._lost)
        return result

    async def until_done(self, step: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of the first try that meets no outage."""

        async def boxed() -> tuple[T]:
            return (await step(*args, **kwargs),)

        while (result := await self.once(boxed)) is None:
            pass
        return result[0]
