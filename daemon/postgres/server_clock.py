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

    The estimate is a lower bound of the server's time: the server reads its clock before its answer arrives here, so an answer
    that travels for long makes the estimate late. The estimate is never early: nothing starts before it is due.
    The server is queried every `ASK_CLOCK_EVERY_S`, and the greatest bound is extrapolated by the monotonic clock of this host.
    After Cristian, Probabilistic clock synchronization (1989).
    """

    def __init__(self) -> None:
        self._asked_at = float("-inf")
        self._sample = datetime.min.replace(tzinfo=UTC)
        self._sample_at = 0.0

    async def now(self, connection: "Connected") -> datetime:
        if monotonic() - self._asked_at > ASK_CLOCK_EVERY_S:
            asked_at = monotonic()
            sample = await connection.fetchval("SELECT clock_timestamp()")
            self._asked_at = monotonic()
            self._add_sample(sample, self._asked_at, self._asked_at - asked_at)
        return self.extrapolated()

    def _add_sample(self, sample: datetime, arrived_at: float, round_trip_s: float) -> None:
        """Keep the greater bound; a server that has set back its clock is below the older bound by more than the round trip."""
        below_s = (self.extrapolated() - sample).total_seconds()
        if not 0 < below_s <= round_trip_s:
            self._sample, self._sample_at = sample, arrived_at

    def told(self, sample: datetime) -> datetime:
        """The time in a result of the server: the identity. A simulated clock overrides it."""
        return sample

    def known(self) -> datetime:
        """The server's time; before the first query that of this host."""
        return datetime.now(UTC) if self._asked_at == float("-inf") else self.extrapolated()

    def extrapolated(self) -> datetime:
        """The estimated time; valid after the first query."""
        return self._sample + timedelta(seconds=(monotonic() - self._sample_at) * (1 - DRIFT))
