"""The events of a dataset with their outcomes, and whether a DAG waits for it."""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from tidegate.schemas.queries import datasets, references
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db

CANDIDATES = 5_000
"""So many names are compared with one that no DAG waits for."""


class EventOutcomes(msgspec.Struct, frozen=True):
    """An event, and its outcome for each DAG that was subscribed to its dataset."""

    event: EventRow
    outcomes: Sequence[OutcomeRow]


async def read_events(
    db: Db, uri: str, event_id: str | None = None, *, before: int | None = None, limit: int
) -> list[EventOutcomes]:
    """The newest events of a dataset, or those of an id of their producer; `before` an event."""
    found = await datasets.events(db, uri, event_id, limit, before)
    outcomes = await datasets.outcomes(db, [event.number for event in found])
    return [EventOutcomes(event, outcomes.get(event.number, ())) for event in found]


async def nearest_if_unawaited(db: Db, uri: str) -> list[str] | None:
    """If no DAG waits for the dataset, the nearest names that DAGs wait for, at most three; None if one does."""
    if await references.is_awaited(db, uri):
        return None
    return get_close_matches(uri, await references.awaited_names(db, CANDIDATES))
