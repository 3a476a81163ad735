"""Servers that are away: said once per outage, waited for with back-off."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import anyio
import structlog

from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.leases import Away

log = structlog.get_logger()

STEADY_S = 15.0
"""Who is away again sooner than that is unsteady: said once, until it has been there for so long."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


def here() -> datetime:
    """The time by this host's clock."""
    return datetime.now(UTC)


class Outages:
    """Which servers are away, for all duties of a process, and since when by this `clock`.

    `on_change` hears of every change, with all that are away. The log does not: a server that takes some requests and refuses
    others, such as a Postgres whose disk is full, comes and goes all the time.
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
        """The servers that do not answer, by name."""
        return self._away

    def begin(self, error: UnavailableError) -> None:
        """A server did not answer."""
        if error.server not in self._since:
            self._since[error.server] = anyio.current_time()
            self._away[error.server] = Away(self._clock(), str(error))
            self._say_lost(error)
            self._on_change(frozenset(self._since))

    def _say_lost(self, error: UnavailableError) -> None:
        server, now = error.server, anyio.current_time()
        if now - self._until.get(server, float("-inf")) > STEADY_S:
            self._unsteady.pop(server, None)
            log.warning("server_lost", server=server, error=str(error))
        elif server not in self._unsteady:
            self._unsteady[server] = now
            log.warning("server_unsteady", server=server, error=str(error))

    def end(self, server: str) -> None:
        """A server answered."""
        since = self._since.pop(server, None)
        self._away.pop(server, None)
        if since is not None:
            self._until[server] = anyio.current_time()
            if server not in self._unsteady:
                self._say_back(server, since)
            self._on_change(frozenset(self._since))
        elif server in self._unsteady and anyio.current_time() - self._until[server] > STEADY_S:
            self._say_back(server, self._unsteady.pop(server))

    def _say_back(self, server: str, since: float) -> None:
        log.info("server_back", server=server, away_s=round(anyio.current_time() - since, 1))

    def end_all(self, servers: set[str]) -> None:
        """All of these answered; the set is empty then."""
        while servers:
            self.end(servers.pop())


class Backoff:
    """Pauses between the tries of one duty: doubling, with full jitter, from the first one again after a success."""

    def __init__(self) -> None:
        self._tries = 0

    async def pause(self) -> None:
        self._tries += 1
        longest = min(FIRST_PAUSE_S * 2**self._tries, LONGEST_PAUSE_S)
        await anyio.sleep(random.uniform(FIRST_PAUSE_S, longest))  # noqa: S311, not a secret

    def reset(self) -> None:
        self._tries = 0
