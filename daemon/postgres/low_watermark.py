"""Low watermarks of queues in Postgres: the id below which no row can appear any more.

Index entries of deleted rows stay until a vacuum removes them, and any open transaction delays the vacuum. A reader that starts
at the first row visits all of these entries at each read.
"""

from collections.abc import Mapping
from contextlib import suppress

import anyio

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import writers
from tidegate.schemas.queries.writers import Writers

ADVANCE_EVERY_S = 1.0


class LowWatermark:
    """`at`: each row with an id up to this one is visible now, or was rolled back."""

    def __init__(self) -> None:
        self.at = 0
        self._awaited: Writers | None = None
        self._next_at = float("-inf")

    def advance(self, found: Writers) -> None:
        """Advance once all transactions that may hold an id have ended.

        Starts again at 0 on another server: after a crash it may give the same ids again.
        """
        if self._awaited is None or self._awaited.server != found.server:
            self.at, self._awaited = 0, found
        elif self._awaited.open.isdisjoint(found.open):
            self.at, self._awaited = self._awaited.last, found

    def take_turn(self, now: float) -> bool:
        """True at most once per `ADVANCE_EVERY_S`: a True starts the next period. `now` is of any monotonic clock."""
        if now < self._next_at:
            return False
        self._next_at = now + ADVANCE_EVERY_S
        return True


async def advance_events(database: Database, events: LowWatermark) -> None:
    """Advance the low watermark of dataset events, if it is due. During an outage it stays, and more rows are read."""
    if events.take_turn(anyio.current_time()):
        with suppress(UnavailableError):
            events.advance(await database.autocommit(writers.of_events))
            database.memory.low_watermarks.settle(events.at)


class OutboxWatermark:
    """The id from which the shards of this daemon are read: the oldest row it saw, but not above `committed`.

    `unreadable` are the damaged rows that it saw, and reads no more.
    """

    def __init__(self) -> None:
        self.committed = LowWatermark()
        self.unreadable: set[int] = set()
        self._oldest = 0
        self._held: Mapping[int, int] = {}

    def lower_bound(self, held: Mapping[int, int]) -> int:
        """The id to read from: 0 if one of the leases is new, because the rows of its shard were never read under it.

        `held`: the epoch of the lease by shard, which is remembered.
        """
        if held.items() - self._held.items():
            self._oldest = 0
        self._held = held
        return min(self._oldest, self.committed.at)

    def advance(self, oldest: int | None) -> None:
        """`oldest` is the id of the first row that was read, None when there was none."""
        self._oldest = self.committed.at if oldest is None else min(self.committed.at, oldest)
