"""The events of a dataset with their outcomes, and whether a DAG waits for it."""

from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches

import msgspec

from tidegate.daemon.read_model.lookup import broken_files
from tidegate.schemas.queries import dag_pages, datasets, references
from tidegate.schemas.queries.counting import EXTRA_BYTES
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.timetable.month import begin_of

CANDIDATES = 5_000
"""The most names that are compared with one that no DAG waits for."""


def ignored_text(fields: Sequence[str]) -> str:
    """What is said of a dataset whose events have fields that this version does not know."""
    return f"its events have fields that are ignored: {', '.join(fields)}; what runs are to read belongs into extra"


class EventOutcomes(msgspec.Struct, frozen=True):
    """An event, and its outcome for each DAG that was subscribed to its dataset."""

    event: EventRow
    outcomes: Sequence[OutcomeRow]


class Retention(msgspec.Struct, frozen=True):
    """Events before the day `whole_since` are kept only where they are still needed. None: all events are kept."""

    whole_since: date | None


async def read_retention(db: Db) -> Retention:
    month = await datasets.whole_since(db)
    return Retention(None if month is None else begin_of(month).date())


async def read_events(
    db: Db, uri: str, event_id: str | None = None, *, before: int | None = None, limit: int, extra_bytes: int = EXTRA_BYTES
) -> list[EventOutcomes]:
    """The newest events of a dataset, or those of an id of their producer; `before` an event. So much extra is read."""
    found = await datasets.events(db, uri, event_id, limit, before, extra_bytes)
    outcomes = await datasets.outcomes(db, [event.number for event in found])
    return [EventOutcomes(event, outcomes.get(event.number, ())) for event in found]


async def unawaited_text(db: Db, uri: str) -> str:
    """If no DAG waits for the dataset, a sentence with the nearest names that DAGs wait for, at most three; empty if one does.

    A broken file may have the DAG.
    """
    if await references.is_awaited(db, uri):
        return ""
    nearest = get_close_matches(uri, await references.awaited_names(db, CANDIDATES))
    parts = (f"no DAG waits for {uri}", broken_files(await dag_pages.count_import_errors(db)), _did_you_mean(nearest))
    return "; ".join(filter(None, parts))


def _did_you_mean(nearest: Sequence[str]) -> str:
    return f"did you mean {' or '.join(nearest)}?" if nearest else ""
