"""How many runs a backfill may start now."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from tidegate.schemas.backfill import BackfillActivity, BackfillView, Retry
from tidegate.schemas.view import RunView


class Slots(NamedTuple):
    """How many more runs may start: `free` at any place, and `waiting` more of them before `waiting_until`.

    `waiting` is the number of running runs that wait for the previous run, the last of them at `waiting_until`. They occupy no
    slot of an earlier run, because they may wait for it.
    """

    free: int
    waiting: int = 0
    waiting_until: datetime | None = None

    @property
    def most(self) -> int:
        """The most runs that may start."""
        return self.free + self.waiting

    def at_most(self, runs: int) -> "Slots":
        """The slots of one step, which starts at most this number of runs."""
        free = min(self.free, runs)
        return self._replace(free=free, waiting=min(self.waiting, runs - free))

    def admits(self, started: int, at: datetime) -> bool:
        """Whether one more run may start after `started` others, at this place in the order of the DAG's runs."""
        is_before = self.waiting_until is not None and at < self.waiting_until
        return started < (self.most if is_before else self.free)


def slots_of(backfill: BackfillView, active: BackfillActivity) -> Slots:
    """The slots of a backfill whose limit may have been lowered below the number of its running runs."""
    free = backfill.max_active_runs - active.running
    return Slots(max(free, 0), max(active.waiting + min(free, 0), 0), active.waiting_until)


def startable_runs(slots: Slots, queued: Iterable[RunView]) -> list[RunView]:
    """The first of these queued runs that may start."""
    return [run for _, run in takewhile(lambda item: slots.admits(item[0], item[1].order_at), enumerate(queued))]


def startable_retries(slots: Slots, started: int, retries: Mapping[int, Retry]) -> Mapping[int, Retry]:
    """The first of these dates whose runs may run again, beside `started` other runs."""
    numbered = enumerate(retries.items(), started)
    return dict(item for _, item in takewhile(lambda it: slots.admits(it[0], it[1][1].logical_date), numbered))
