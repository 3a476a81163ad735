"""Outages: which servers do not answer, reported once per outage, and the retry policy of all duties."""

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, ParamSpec, TypeVar

import anyio
import structlog

from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.leases import Away

log = structlog.get_logger()

P = ParamSpec("P")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

STEADY_S = 15.0
"""A server that fails again within this time is unsteady: logged once, until it has answered for this time."""


def here() -> datetime:
    """The time by this host's clock."""
    return datetime.now(UTC)


class _Events(NamedTuple):
    """The names of the log entries about one kind of component, and of the field with its name."""

    field: str
    lost: str
    unsteady: str
    back: str


_SERVER = _Events("server", "server_lost", "server_unsteady", "server_back")
_DUTY = _Events("duty", "duty_degraded", "duty_unsteady", "duty_recovered")
DUTY = "duty "
"""Starts the names of duties among those of servers."""


class Outages:
    """The servers that do not answer and the duties that fail, for all duties of a process, with the time by `clock`.

    `on_change` gets the set of these servers at each change. The log gets fewer entries: a server that accepts some requests and
    rejects others, such as Postgres with a full disk, is lost and back many times a second.
    """

    def __init__(
        self, on_change: Callable[[frozenset[str]], None] = lambda _: None, clock: Callable[[], datetime] = here
    ) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self._unsteady: dict[str, float] = {}
        self._away: dict[str, Away] = {}
        self._on_change = on_change

    @property
    def away(self) -> Mapping[str, Away]:
        """The servers that do not answer, by name, for the record of this daemon."""
        return self._away

    def begin(self, error: UnavailableError) -> None:
        """Start an outage, unless the server has one."""
        self._begin(error.server, str(error))

    def begin_failure(self, duty: str, reason: str) -> None:
        """A duty of this daemon fails, until `end_failure`."""
        self._begin(f"{DUTY}{duty}", f"it failed and starts again: {reason}")

    def end_failure(self, duty: str) -> None:
        """A duty works again."""
        self.end(f"{DUTY}{duty}")

    def _begin(self, name: str, reason: str) -> None:
        if name not in self._since:
            self._since[name] = anyio.current_time()
            self._away[name] = Away(self._clock(), reason)
            self._log_lost(name, reason)
            self._on_change(frozenset(self._since))

    def _log_lost(self, name: str, reason: str) -> None:
        now, (events, named) = anyio.current_time(), _entry(name)
        if now - self._until.get(name, float("-inf")) > STEADY_S:
            self._unsteady.pop(name, None)
            log.warning(events.lost, **named, error=reason)
        elif name not in self._unsteady:
            self._unsteady[name] = now
            log.warning(events.unsteady, **named, error=reason)

    def end(self, server: str) -> None:
        """End the outage of a server that answered."""
        since = self._since.pop(server, None)
        self._away.pop(server, None)
        if since is not None:
            self._until[server] = anyio.current_time()
            if server not in self._unsteady:
                self._log_back(server, since)
            self._on_change(frozenset(self._since))
        elif server in self._unsteady and anyio.current_time() - self._until[server] > STEADY_S:
            self._log_back(server, self._unsteady.pop(server))

    def _log_back(self, name: str, since: float) -> None:
        events, named = _entry(name)
        log.info(events.back, **named, away_s=round(anyio.current_time() - since, 1))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Suppress UnavailableError and start the outage; for work that the caller repeats later anyway."""
        try:
            yield
        except UnavailableError as error:
            self.begin(error)

    def end_all(self, servers: set[str]) -> None:
        """End the outages of all servers in the set, and empty it."""
        while servers:
            self.end(servers.pop())


def _entry(name: str) -> tuple[_Events, Mapping[str, str]]:
    events = _DUTY if name.startswith(DUTY) else _SERVER
    return events, {events.field: name.removeprefix(DUTY)}


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

        # Boxed: None from `once` means an outage, and a step may return None.
        async def boxed() -> tuple[T]:
            return (await step(*args, **kwargs),)

        while (result := await self.once(boxed)) is None:
            pass
        return result[0]
