"""Per-DAG low watermark of the pending queue: every event below it was consumed or discarded.

Index entries of consumed events remain until vacuum removes them, which one long transaction anywhere can prevent. Without a low
watermark every decision would scan them again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

VALID_FOR = timedelta(minutes=1)
"""After this time the queue is read from its start once: daemons of an older version do not record that they backfilled a DAG."""

MAX_DAGS = 20_000


class Observation(NamedTuple):
    """The observation of a transaction with the lock of a DAG: no pending event is below `watermark`."""

    backfilled_by_txn: int
    now: datetime
    watermark: int


class LowWatermark(NamedTuple):
    """A low watermark, valid `until` a time and as long as no other transaction backfills the DAG."""

    backfilled_by_txn: int
    until: datetime
    watermark: int


class LowWatermarks:
    """The low watermarks that a process knows. No transaction can still queue an event below `settled`."""

    def __init__(self) -> None:
        self.settled = 0
        self._by_dag: dict[str, LowWatermark] = {}

    def settle(self, watermark: int) -> None:
        """Set `settled`. A lower value comes from a promoted server that may lack events: it clears all low watermarks."""
        if watermark < self.settled:
            self._by_dag.clear()
        self.settled = watermark

    def of(self, dag_id: str, backfilled_by_txn: int, now: datetime) -> int:
        """The event id to read from; 0 if unknown."""
        known = self._by_dag.get(dag_id)
        return known.watermark if known and known.backfilled_by_txn == backfilled_by_txn and now < known.until else 0

    def advance(self, observed: Mapping[str, Observation]) -> None:
        """Store observations, after the commit only: events that a rolled back transaction consumed are pending again."""
        for dag_id, (backfilled_by_txn, now, watermark) in observed.items():
            until = self._by_dag[dag_id].until if self.of(dag_id, backfilled_by_txn, now) else now + VALID_FOR
            self._by_dag[dag_id] = LowWatermark(backfilled_by_txn, until, watermark)
        while len(self._by_dag) > MAX_DAGS:
            del self._by_dag[next(iter(self._by_dag))]
