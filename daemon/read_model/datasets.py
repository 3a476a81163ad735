"""The events of a dataset with their outcomes."""

from collections.abc import Sequence

import msgspec

from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db


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
