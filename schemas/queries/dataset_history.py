"""Events of a dataset and their outcomes, for the CLI."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("dataset_history")


class EventRow(msgspec.Struct, frozen=True):
    """An event of the ledger. (source, id) is the producer's identity of it."""

    number: int
    source: str
    id: str
    occurred_at: datetime
    received_at: datetime
    extra: dict[str, Any]


class OutcomeRow(msgspec.Struct, frozen=True):
    """The outcome of an event for a DAG: `pending`, `consumed` by a run, or `discarded` for a reason."""

    number: int
    dag_id: str
    outcome: str
    run_id: str | None
    reason: str | None


async def events(db: Db, uri: str, id_: str | None, limit: int) -> list[EventRow]:
    """Newest first; with `id_` only the events of that id."""
    return [EventRow(*row) for row in await db.fetch(_SQL["events"], uri, id_, limit)]


async def outcomes(db: Db, numbers: Collection[int]) -> Mapping[int, list[OutcomeRow]]:
    """By event and then by DAG."""
    found: dict[int, list[OutcomeRow]] = defaultdict(list)
    for row in [OutcomeRow(*row) for row in await db.fetch(_SQL["outcomes"], list(numbers))]:
        found[row.number].append(row)
    return found


async def whole_since(db: Db) -> int | None:
    """The first month that is complete in the ledger; None if no event was ever dropped."""
    rows = await db.fetch(_SQL["whole_since"])
    return rows[0][0] if rows else None
