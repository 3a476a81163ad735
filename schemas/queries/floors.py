"""From which event on is read what waits for a DAG: all before have had their fate.

Rows of events that were consumed stay in the index until a vacuum may remove them, and one transaction that is open anywhere can
keep it from that. Who reads from the first one on goes through all of them at each decision.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

KEPT = timedelta(minutes=1)
"""After this time everything is read once more, for the sake of daemons of an older version: they do not say
that they queued recorded events."""

MOST = 20_000


class Seen(NamedTuple):
    """Of a DAG whose row was locked: it will be enough to read `at` this event and after."""

    history_in: int
    now: datetime
    at: int


class Floor(NamedTuple):
    """Holds for one `history_in` of the DAG, and up to a time."""

    history_in: int
    until: datetime
    at: int


class Floors:
    """What one process knows, of DAGs."""

    def __init__(self) -> None:
        self.settled = 0
        self._of: dict[str, Floor] = {}

    def settle(self, at: int) -> None:
        """No event that is older can appear any more to who looks from now on. A server that took over may know of less."""
        if at < self.settled:
            self._of.clear()
        self.settled = at

    def of(self, dag_id: str, history_in: int, now: datetime) -> int:
        """The id to read from."""
        known = self._of.get(dag_id)
        return known.at if known and known.history_in == history_in and now < known.until else 0

    def rise(self, seen: Mapping[str, Seen]) -> None:
        """After a commit: what a transaction that is rolled back has seen, may yet wait again."""
        for dag_id, (history_in, now, at) in seen.items():
            until = self._of[dag_id].until if self.of(dag_id, history_in, now) else now + KEPT
            self._of[dag_id] = Floor(history_in, until, at)
        while len(self._of) > MOST:
            del self._of[next(iter(self._of))]
