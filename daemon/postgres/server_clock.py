"""The clock of Postgres, as this process knows it."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

ASK_CLOCK_EVERY_S = 5.0
DRIFT = 1e-4
"""How much two clocks may part per second, at most."""


class ServerClock:
    """The clock of the server, which all daemons go by, without a round trip for each look at it.

    It is asked now and then, and carried on by the monotonic clock of this host between. An answer that was long under way says
    less than an older one that was not: it counts only where that one must be wrong. After NTP's clock filter (RFC 5905, 10).
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._said = datetime.min.replace(tzinfo=UTC)
        self._said_at = 0.0
        self._error_s = float("inf")

    async def now(self, connection: "Connected") -> datetime:
        if monotonic() - self._asked_at > ASK_CLOCK_EVERY_S:
            asked_at = monotonic()
            said = await connection.fetchval("SELECT clock_timestamp()")
            self._asked_at = monotonic()
            self._hear(said, (asked_at + self._asked_at) / 2, (self._asked_at - asked_at) / 2)
        return self.carried_on()

    def _hear(self, said: datetime, at: float, error_s: float) -> None:
        grown_s = self._error_s + DRIFT * (at - self._said_at)
        if error_s <= grown_s or abs((said - self.carried_on()).total_seconds()) > error_s + grown_s:
            self._said, self._said_at, self._error_s = said, at, error_s

    def told(self, said: datetime) -> datetime:
        """The time when the server has just said it: its word counts."""
        return said

    def known(self) -> datetime:
        """The server's time as soon as it was asked; before that what this host takes for it."""
        return datetime.now(UTC) if self._asked_at == float("-inf") else self.carried_on()

    def carried_on(self) -> datetime:
        """Once it was asked."""
        return self._said + timedelta(seconds=monotonic() - self._said_at)
