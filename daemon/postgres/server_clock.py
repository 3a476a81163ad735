"""The clock of the Postgres server, estimated in this process."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

ASK_CLOCK_EVERY_S = 5.0
DRIFT = 1e-4
"""The maximum drift between two clocks, in seconds per second."""


class ServerClock:
    """The time of the server, common to all daemons, without a round trip per reading.

    The server is queried every `ASK_CLOCK_EVERY_S` and extrapolated by the monotonic clock of this host. A sample with a long
    round trip replaces an older and more precise one only when both contradict. After NTP's clock filter (RFC 5905, 10).
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._sample = datetime.min.replace(tzinfo=UTC)
        self._sample_at = 0.0
        self._error_s = float("inf")

    async def now(self, connection: "Connected") -> datetime:
        if monotonic() - self._asked_at > ASK_CLOCK_EVERY_S:
            asked_at = monotonic()
            sample = await connection.fetchval("SELECT clock_timestamp()")
            self._asked_at = monotonic()
            self._add_sample(sample, (asked_at + self._asked_at) / 2, (self._asked_at - asked_at) / 2)
        return self.extrapolated()

    def _add_sample(self, sample: datetime, at: float, error_s: float) -> None:
        grown_s = self._error_s + DRIFT * (at - self._sample_at)
        if error_s <= grown_s or abs((sample - self.extrapolated()).total_seconds()) > error_s + grown_s:
            self._sample, self._sample_at, self._error_s = sample, at, error_s

    def told(self, sample: datetime) -> datetime:
        """The time in a result of the server: the identity. A simulated clock overrides it."""
        return sample

    def known(self) -> datetime:
        """The server's time; before the first query that of this host."""
        return datetime.now(UTC) if self._asked_at == float("-inf") else self.extrapolated()

    def extrapolated(self) -> datetime:
        """The estimated time; valid after the first query."""
        return self._sample + timedelta(seconds=monotonic() - self._sample_at)
