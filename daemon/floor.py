"""From which row on the outbox is read: below it nothing that is to be sent can appear any more.

Rows that were deleted stay in the index until a vacuum may remove them, and one transaction that is open anywhere can keep it
from that. Who reads from the first row on goes through all of them at each look.
"""

from collections.abc import Set

from tidegate.schemas.queries.outbox import Writers

SEE_EVERY_S = 1.0


class Floor:
    """Of the shards that are read. Begins below all."""

    def __init__(self) -> None:
        self._at = 0
        self._settled = 0
        self._awaited: Writers | None = None
        self._shards: Set[int] = frozenset()
        self._see_at = float("-inf")

    def see(self, writers: Writers) -> None:
        """When all who may have been given an id have ended, whatever of theirs is to be seen is seen by who looks from now on.

        A server that took over from one that broke down may give ids again.
        """
        if self._awaited is None or self._awaited.server != writers.server:
            self._at, self._settled, self._awaited = 0, 0, writers
        elif self._awaited.open.isdisjoint(writers.open):
            self._settled, self._awaited = self._awaited.last, writers

    def is_to_see(self, now: float) -> bool:
        """Whether it is time; `now` in seconds of any monotonic clock."""
        if now < self._see_at:
            return False
        self._see_at = now + SEE_EVERY_S
        return True

    def below(self, shards: Set[int]) -> int:
        """The id to read from. Of shards that are new to us we have seen nothing."""
        if shards - self._shards:
            self._at = 0
        self._shards = shards
        return self._at

    def rise(self, oldest: int | None) -> None:
        """What is read from now on is at least as new as the oldest row that was there, and as what is still to come."""
        self._at = self._settled if oldest is None else min(self._settled, oldest)
