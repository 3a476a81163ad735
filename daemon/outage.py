"""Outages: which servers do not answer, reported once per outage, and the retry policy of all duties."""

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, ParamSpec, TypeVar

import anyio
import structlog

from tidegate.schemas.error import DUTY, LockedError, UnavailableError
from tidegate.schemas.queries.leases import Away

log = structlog.get_logger()

P = ParamSpec("P")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

STEADY_S = 15.0
"""A server that fails again within this time is unsteady: logged once, until it has answered for this time."""


def host_time() -> datetime:
    """The time by this host's clock."""
    return datetime.now(UTC)


class _Kind(NamedTuple):
    """The log entries about one kind of component, the field with its name, and what precedes its name elsewhere."""

    field: str
    lost: str
    unsteady: str
    back: str
    prefix: str = ""


_SERVER = _Kind("server", "server_lost", "server_unsteady", "server_back")
_DUTY = _Kind("duty", "duty_degraded", "duty_unsteady", "duty_recovered", prefix=DUTY)


class _Component(NamedTuple):
    """A server, or a duty of this daemon."""

    kind: _Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.prefix}{self.name}"


class Outages:
    """The servers that do not answer and the duties that fail, for all duties of a process, with the time by `clock`.

    `on_change` gets the set of their names at each change. The log gets fewer entries: a server that accepts some requests and
    rejects others, such as Postgres with a full disk, is lost and back many times a second.
    """

    def __init__(
        self, on_change: Callable[[frozenset[str]], None] = lambda _: None, clock: Callable[[], datetime] = host_time
    ) -> None:
        self._clock = clock
        self._since: dict[_Component, float] = {}
        self._until: dict[_Component, float] = {}
        self._unsteady: dict[_Component, float] = {}
        self._away: dict[str, Away] = {}
        self._on_change = on_change

    @property
    def away(self) -> Mapping[str, Away]:
        """The servers that do not answer and the duties that fail, by name, for the record of this daemon."""
        return self._away

    def begin(self, error: UnavailableError) -> None:
        """Start an outage, or give the one that the server has its newest reason. A locked row is none."""
        if not isinstance(error, LockedError):
            self._begin(_Component(_SERVER, error.server), str(error))

    def begin_failure(self, duty: str, reason: str) -> None:
        """A duty of this daemon fails, until `end_failure`."""
        self._begin(_Component(_DUTY, duty), f"it failed and starts again: {reason}")

    def end_failure(self, duty: str) -> None:
        """A duty works again."""
        self._end(_Component(_DUTY, duty))

    def _begin(self, component: _Component, reason: str) -> None:
        if component not in self._since:
            self._since[component] = anyio.current_time()
            self._away[str(component)] = Away(self._clock(), reason)
            self._log_lost(component, reason)
            self._on_change(frozenset(map(str, self._since)))
        elif (before := self._away[str(component)]).error != reason:
            self._away[str(component)] = Away(before.since, reason)

    def _log_lost(self, component: _Component, reason: str) -> None:
        now, (kind, name) = anyio.current_time(), component
        if now - self._until.get(component, float("-inf")) > STEADY_S:
            self._unsteady.pop(component, None)
            log.warning(kind.lost, **{kind.field: name}, error=reason)
        elif component not in self._unsteady:
            self._unsteady[component] = now
            log.warning(kind.unsteady, **{kind.field: name}, error=reason)

    def end(self, server: str) -> None:
        """End the outage of a server that answered, which any duty may have met. `Retry` ends outages of its own tries alone."""
        self._end(_Component(_SERVER, server))

    def _end(self, component: _Component) -> None:
        since = self._since.pop(component, None)
        self._away.pop(str(component), None)
        if since is not None:
            self._until[component] = anyio.current_time()
            if component not in self._unsteady:
                _log_back(component, since)
            self._on_change(frozenset(map(str, self._since)))
        elif component in self._unsteady and anyio.current_time() - self._until[component] > STEADY_S:
            _log_back(component, self._unsteady.pop(component))

    @contextmanager
    def reporting(self, lost: set[str] | None = None) -> Iterator[None]:
        """Suppress UnavailableError and start the outage; for work that the caller repeats later anyway.

        `lost` has the servers whose outages this work has met: they end after a block that meets none.
        """
        lost = set() if lost is None else lost
        try:
            yield
        except UnavailableError as error:
            lost.add(error.server)
            self.begin(error)
        else:
            self.end_all(lost)

    def end_all(self, servers: set[str]) -> None:
        """End the outages of all servers in the set, and empty it."""
        while servers:
            self.end(servers.pop())


class ReportedOutages:
    """The outages of the servers with a prefix, of which an observer reports all each time.

    An observer that starts again ends those of its predecessor.
    """

    def __init__(self, outages: Outages, prefix: str) -> None:
        self._outages = outages
        self._prefix = prefix
        self._names = {name.removeprefix(prefix) for name in outages.away if name.startswith(prefix)}

    def __bool__(self) -> bool:
        return bool(self._names)

    def report(self, reasons: Mapping[str, str]) -> None:
        """Start the outages of these servers, and end the others with the prefix."""
        self._outages.end_all({self._prefix + name for name in self._names - reasons.keys()})
        for name, reason in reasons.items():
            self._outages.begin(UnavailableError(reason, server=self._prefix + name))
        self._names = set(reasons)


def _log_back(component: _Component, since: float) -> None:
    kind, name = component
    log.info(kind.back, **{kind.field: name}, away_s=round(anyio.current_time() - since, 1))


class Backoff:
    """Pauses that double with full jitter, up to `LONGEST_PAUSE_S`; `reset` starts again at the first."""

    def __init__(self) -> None:
        self._longest_s = FIRST_PAUSE_S

    async def pause(self) -> None:
        self._longest_s = min(2 * self._longest_s, LONGEST_PAUSE_S)
        await anyio.sleep(random.uniform(FIRST_PAUSE_S, self._longest_s))  # noqa: S311, not a secret

    def reset(self) -> None:
        self._longest_s = FIRST_PAUSE_S


class Retry:
    """Tries of one duty. UnavailableError is an outage; every other exception passes.

    `ends_outages`: a success ends the outages that earlier tries met. False where a step may skip a server.
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
