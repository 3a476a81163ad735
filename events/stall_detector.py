"""A watchdog: a Kafka consumer may stop fetching without an error."""

from collections.abc import Callable, Mapping, Sequence

import anyio

from tidegate.events.source import Partition, Source
from tidegate.schemas.error import UnavailableError

CHECK_EVERY_S = 10.0
STALLED_AFTER_S = 30.0


class StallDetector:
    """Detects partitions whose position does not move although records follow. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        self._clock = clock
        self._moved: dict[Partition, tuple[int, float]] = {}
        self._called_at = float("-inf")
        self._checked_at = float("-inf")

    def record_positions(self, positions: Mapping[Partition, int]) -> None:
        """Record the position of each partition, and the time of its last change."""
        now = self._clock()
        for partition, position in positions.items():
            if self._moved.get(partition, (-1, 0.0))[0] != position:
                self._moved[partition] = position, now

    def stalled(self, lag: Mapping[Partition, int]) -> Sequence[Partition]:
        """Partitions with a `lag` whose position has not moved for STALLED_AFTER_S. The time of all others starts again."""
        now = self._clock()
        self._moved = {p: self._moved.get(p, (-1, now)) if behind else (-1, now) for p, behind in lag.items()}
        return [partition for partition, (_, since) in self._moved.items() if now - since >= STALLED_AFTER_S]

    async def check(self, source: Source) -> None:
        """Call after every fetch; asks Kafka for the lag every CHECK_EVERY_S.

        Raises UnavailableError for a stalled source, which must be replaced.
        """
        now = self._clock()
        if now - self._called_at > CHECK_EVERY_S:  # the caller did not fetch, so no position could move
            self._moved.clear()
        self._called_at = now
        if now - self._checked_at < CHECK_EVERY_S:
            return
        self._checked_at = now
        self.record_positions(source.positions())
        if stalled := self.stalled(await source.lag()):
            names = ", ".join(f"{p.topic}/{p.partition}" for p in sorted(stalled))
            raise UnavailableError(
                f"the consumer is stalled: {names} delivered no record for {STALLED_AFTER_S:g} s, although there are some"
            )
