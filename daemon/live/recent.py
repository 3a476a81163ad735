"""The last changes: a client that connects again gets what it missed, from any web process."""

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from tidegate.events.source import Partition
from tidegate.schemas.wire.event import Kind

LIMIT = 5000
DIGITS = 19
"""The digits of the longest offset of Kafka."""

Positions = Mapping[Partition, int]


class Change(msgspec.Struct, frozen=True):
    """A change of a run or a task, its place in Kafka, and the message about it."""

    place: Partition
    offset: int
    kind: Kind
    dag_id: str
    run_id: str
    content: bytes


class Wanted(msgspec.Struct, frozen=True):
    """Which changes a stream gets; None: of all DAGs, runs and kinds."""

    dag_id: str | None = None
    run_id: str | None = None
    kind: Kind | None = None

    def has(self, change: Change) -> bool:
        """Whether the stream gets this change."""
        wanted = (self.dag_id, change.dag_id), (self.run_id, change.run_id), (self.kind, change.kind)
        return all(mine is None or mine == its for mine, its in wanted)


class Recent:
    """The last changes, and the position after them: for each partition the next offset.

    It has every change from `_since` on.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._changes: deque[Change] = deque()
        self._since: dict[Partition, int] = {}
        self.positions: Positions = {}

    def begin(self, positions: Positions) -> None:
        """Forget all changes: what was between them and this position is not known."""
        self._changes.clear()
        self._since, self.positions = dict(positions), dict(positions)

    def add(self, changes: Sequence[Change], positions: Positions) -> None:
        """Store the changes up to a position. It may have partitions that a topic has got meanwhile."""
        self._changes.extend(changes)
        self._since = {**positions, **self._since}
        self.positions = dict(positions)
        while len(self._changes) > self._limit:
            oldest = self._changes.popleft()
            self._since[oldest.place] = oldest.offset + 1

    def after(self, text: str, wanted: Wanted) -> list[Change] | None:
        """The changes after a position that `encode` wrote; None if some of them are not known."""
        position = self._decode(text)
        if position is None or not all(self._since[p] <= offset <= self.positions[p] for p, offset in position.items()):
            return None
        return [change for change in self._changes if change.offset >= position[change.place] and wanted.has(change)]

    def encode(self) -> str:
        """The position as a text: the offsets, in the order of the topics and partitions."""
        return ".".join(str(self.positions[place]) for place in sorted(self.positions))

    def _decode(self, text: str) -> Positions | None:
        """None for a text of another installation, or of none."""
        offsets = text.split(".")
        if len(offsets) != len(self.positions) or not all(o.isdecimal() and len(o) <= DIGITS for o in offsets):
            return None
        return dict(zip(sorted(self.positions), map(int, offsets), strict=True))
