"""Low watermarks of queues in Postgres: the id below which no row can appear any more.

Index entries of deleted rows stay until a vacuum removes them, and any open transaction delays the vacuum. A reader that starts
at the first row visits all of these entries at each read.
"""

from collections.abc import Collection, Hashable, Mapping
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

    def advance(self, found: Writers) -> bool:
        """Advance once all transactions that may hold an id have ended. Returns whether it starts again.

        It starts again at 0 on another server, or after a crash of it: the server may give the same ids again.
        """
        is_new = self._awaited is None or self._awaited.server != found.server
        if self._awaited is None or is_new:
            self.at, self._awaited = 0, found
        elif self._awaited.open.isdisjoint(found.open):
            self.at, self._awaited = self._awaited.last, found
        return is_new

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


class Backlog:
    """The rows that wait for a place, such as a partition that does not answer. New rows are read beyond them.

    Once a place answers, its rows are read again, oldest first, before any new row is, and without new ones between them: an
    older row of the same run may be new, too. One page is enough to see that a place does not answer after all, so that a long
    backlog is read once only.
    """

    def __init__(self) -> None:
        self._first: dict[Hashable, int] = {}
        self._seen: set[int] = set()

    def clear(self) -> None:
        """Every row will be read again."""
        self._first.clear()
        self._seen.clear()

    def start(self, resting: Collection[Hashable]) -> int | None:
        """The id to read from for places that do not rest any more; None if there are none, and new rows are to be read."""
        return min((id_ for place, id_ in self._first.items() if place not in resting), default=None)

    def seen_from(self, lowest: int) -> Collection[int]:
        """The rows from this id on that were read before, as all rows below it were. The id sinks only after a `clear`."""
        self._seen = {id_ for id_ in self._seen if id_ >= lowest}
        return self._seen

    def end_page(self, resting: Collection[Hashable], waiting: Mapping[int, Hashable], next_id: int | None) -> None:
        """A page was read and sent while `resting` were resting. `waiting`: the place of each of its rows that still waits.

        `next_id` follows the page; None if it was the last one.
        """
        for place in self._first.keys() - set(resting):
            if next_id is None:
                del self._first[place]
            else:
                self._first[place] = max(self._first[place], next_id)
        for id_, place in waiting.items():
            self._first[place] = min(self._first.get(place, id_), id_)
        self._seen.update(waiting)


class OutboxWatermark:
    """The id from which the shards of this daemon are read: the oldest row it saw, but not above `committed`.

    `unreadable` are the damaged rows that it saw, and reads no more while the server is the same; `backlog` the rows that wait.
    """

    def __init__(self) -> None:
        self.committed = LowWatermark()
        self.backlog = Backlog()
        self.unreadable: set[int] = set()
        self._oldest = 0
        self._held: Mapping[int, int] = {}

    def advance_committed(self, found: Writers) -> None:
        """Advance `committed`. Another server may give the ids of damaged and of waiting rows to others."""
        if self.committed.advance(found):
            self.unreadable.clear()
            self.backlog.clear()

    def lower_bound(self, held: Mapping[int, int]) -> int:
        """The id to read from: 0 if one of the leases is new, because the rows of its shard were never read under it.

        `held`: the epoch of the lease by shard, which is remembered.
        """
        if held.items() - self._held.items():
            self._oldest = 0
            self.backlog.clear()
        self._held = held
        return min(self._oldest, self.committed.at)

    def advance(self, oldest: int | None) -> None:
        """`oldest` is the id of the first row that was read, None when there was none."""
        self._oldest = self.committed.at if oldest is None else min(self.committed.at, oldest)
