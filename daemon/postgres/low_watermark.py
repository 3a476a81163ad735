"""From which row on queues in Postgres are read: below it nothing can appear any more.

Rows that were deleted stay in the index until a vacuum may remove them, and one transaction that is open anywhere can keep it
from that. Who reads from the first row on goes through all of them at each look.
"""

from collections.abc import Set
from contextlib import suppress

import anyio

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import writers
from tidegate.schemas.queries.writers import Writers

SEE_EVERY_S = 1.0


class Settled:
    """`at`: up to this id of a queue, whatever is to be seen there is seen by who looks from now on."""

    def __init__(self) -> None:
        self.at = 0
        self._awaited: Writers | None = None
        self._see_at = float("-inf")

    def see(self, found: Writers) -> None:
        """It rises when all who may have been given an id have ended.

        A server that took over from one that broke down may give ids again.
        """
        if self._awaited is None or self._awaited.server != found.server:
            self.at, self._awaited = 0, found
        elif self._awaited.open.isdisjoint(found.open):
            self.at, self._awaited = self._awaited.last, found

    def is_to_see(self, now: float) -> bool:
        """Whether it is time; `now` in seconds of any monotonic clock."""
        if now < self._see_at:
            return False
        self._see_at = now + SEE_EVERY_S
        return True


async def settle(database: Database, events: Settled) -> None:
    """Look now and then who may still write what waits for DAGs. It may fail: then more is read than need be."""
    if events.is_to_see(anyio.current_time()):
        with suppress(UnavailableError):
            events.see(await database.ask(writers.of_events))
            database.memory.low_watermarks.settle(events.at)


class Floor:
    """Of the shards of the outbox that are read. Begins below all."""

    def __init__(self) -> None:
        self.settled = Settled()
        self._at = 0
        self._shards: Set[int] = frozenset()

    def below(self, shards: Set[int]) -> int:
        """The id to read from. Of shards that are new to us we have seen nothing."""
        if shards - self._shards:
            self._at = 0
        self._shards = shards
        return min(self._at, self.settled.at)

    def rise(self, oldest: int | None) -> None:
        """What is read from now on is at least as new as the oldest row that was there, and as what is still to come."""
        self._at = self.settled.at if oldest is None else min(self.settled.at, oldest)
