"""A watchdog over a source: consumers of Kafka have been seen to stop without a word."""

from collections.abc import Callable, Mapping, Sequence

import anyio

from tidegate.events.source import Partition, Source
from tidegate.schemas.error import UnavailableError

CHECK_EVERY_S = 10.0
PATIENCE_S = 30.0


class Progress:
    """Knows since when each partition has not moved. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        self._clock = clock
        self._moved: dict[Partition, tuple[int, float]] = {}
        self._called_at = float("-inf")
        self._checked_at = float("-inf")

    def advanced(self, positions: Mapping[Partition, int]) -> None:
        """This is how far we are."""
        now = self._clock()
        for partition, position in positions.items():
            if self._moved.get(partition, (-1, 0.0))[0] != position:
                self._moved[partition] = position, now

    def stalled(self, lag: Mapping[Partition, int]) -> Sequence[Partition]:
        """Partitions with records to read that have not moved for PATIENCE_S. Those without `lag` are not watched."""
        now = self._clock()
        self._moved = {p: self._moved.get(p, (-1, now)) if behind else (-1, now) for p, behind in lag.items()}
        return [partition for partition, (_, since) in self._moved.items() if now - since >= PATIENCE_S]

    async def check(self, source: Source) -> None:
        """To be called after every fetch; asks Kafka now and then.

        Raises UnavailableError when the source stands still while there is something to read: build a new one.
        """
        now = self._clock()
        if now - self._called_at > CHECK_EVERY_S:  # nobody fetched meanwhile, so nothing could move
            self._moved.clear()
        self._called_at = now
        if now - self._checked_at < CHECK_EVERY_S:
            return
        self._checked_at = now
        self.advanced(source.positions())
        if stalled := self.stalled(await source.lag()):
            names = ", ".join(f"{p.topic}/{p.partition}" for p in sorted(stalled))
            raise UnavailableError(f"nothing came from {names} for {PATIENCE_S:g} s although there is something to read")
