"""The whole life of an event: its outcome for each DAG, and the runs and events that followed from it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import PRODUCER

GENERATIONS = 6
"""How far the tree goes down: the event, the events of the runs that consumed it, and so on."""

FOLLOWED = 200
"""The most events of the tree, and of a run in it."""


def own_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The extra of an event without its producer, which is shown apart; empty for one that was not read."""
    return {key: value for key, value in (extra or {}).items() if key != PRODUCER}


RunKey = tuple[str, str]
"""The id of a DAG, and of its run."""


class Reached(msgspec.Struct, frozen=True):
    """The outcome of an event for a DAG, and the events that the run made which consumed it.

    `is_followed` is False for a run whose events are not listed here: they stand in the tree before, or the tree is full.
    """

    outcome: OutcomeRow
    is_followed: bool
    events: Sequence["EventLife"] = ()


class EventLife(msgspec.Struct, frozen=True):
    """An event with its outcomes. `is_cut`: they are left out, because the tree is full."""

    event: EventRow
    is_cut: bool
    reached: Sequence[Reached]


class Descent:
    """The rows read below an event. `owners`: for each run, the event of the tree above it, one of the nearest."""

    def __init__(self) -> None:
        self.outcomes: dict[int, Sequence[OutcomeRow]] = {}
        self.owners: dict[RunKey, int] = {}
        self.made: dict[RunKey, list[EventRow]] = {}

    def enter(self, generation: Sequence[EventRow], outcomes: Mapping[int, Sequence[OutcomeRow]]) -> list[RunKey]:
        """Take the outcomes of these events. Returns the runs that are new in the tree and followed."""
        rows = [row for event in generation for row in outcomes.get(event.number, ()) if row.run_id]
        new = [key for key in dict.fromkeys(map(run_of, rows)) if key not in self.owners][:FOLLOWED]
        for row in reversed(rows):
            if run_of(row) in new:
                self.owners[run_of(row)] = row.number
        self.outcomes |= {event.number: outcomes.get(event.number, ()) for event in generation}
        return new

    def follow(self, runs: Sequence[RunKey], events: Sequence[EventRow]) -> None:
        """Take the events that these runs made."""
        self.made |= {key: [] for key in runs}
        for event in events:
            if event.producer:
                self.made[event.producer.dag_id, event.producer.run_id].append(event)

    def life(self, event: EventRow) -> EventLife:
        """The tree below an event."""
        reached = [self._reached(row) for row in self.outcomes.get(event.number, ())]
        return EventLife(event, event.number not in self.outcomes, reached)

    def _reached(self, row: OutcomeRow) -> Reached:
        if row.run_id is None:
            return Reached(row, is_followed=True)
        key = run_of(row)
        if self.owners.get(key) != row.number or key not in self.made:
            return Reached(row, is_followed=False)
        return Reached(row, is_followed=True, events=[self.life(event) for event in self.made[key]])


def run_of(row: OutcomeRow) -> RunKey:
    """The run that consumed the event."""
    return row.dag_id, row.run_id or ""


async def read_life(db: Db, number: int) -> EventLife:
    """Raises NotFoundError for an event that the ledger does not have."""
    root = await datasets.event(db, number)
    if root is None:
        raise NotFoundError(f"there is no event {number}; `tidegate datasets events URI` shows those of a dataset")
    descent, generation, left = Descent(), [root], FOLLOWED
    for _ in range(GENERATIONS):
        runs = descent.enter(generation, await datasets.outcomes(db, [event.number for event in generation]))
        events = await datasets.made_by_runs(db, runs, FOLLOWED)
        descent.follow(runs, events)
        generation, left = events[:left], left - min(left, len(events))
        if not generation:
            break
    return descent.life(root)
