"""Datasets, the event ledger, the queue of pending events, and the outcomes of events."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec

from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents
from tidegate.schemas.message import Message
from tidegate.schemas.queries import dataset_pages, references
from tidegate.schemas.queries.counting import COUNTED, EXTRA_BYTES
from tidegate.schemas.queries.dataset_pages import Rhythm
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.producers import producer_columns, producer_of, with_producer
from tidegate.schemas.queries.sql import load
from tidegate.schemas.read_plan import EventKey
from tidegate.schemas.state import RunStateName, listing
from tidegate.schemas.wire.event import DatasetUpdated, Producer

_SQL = load("datasets")

IGNORED_EVERY, IGNORED_FOR = timedelta(hours=1), timedelta(days=7)
"""How often a field that is ignored is noted again, and for how long it is shown after that."""

MAX_IGNORED = 20
"""Of a dataset: its producer may make up names."""


class DatasetRow(msgspec.Struct, frozen=True):
    """A line of the list of datasets. `events` 10,001: more than 10,000.

    `last_event_at` is the arrival of the last event, `interval_s` the mean time between the last ones; `is_late` is by `Rhythm`.
    `ignored_fields`: of its last events, what this version does not know.
    """

    uri: str
    name: str
    is_active: bool
    consumers: int
    producers: int
    events: int
    last_event_at: datetime | None
    ignored_fields: Sequence[str] = ()
    interval_s: float | None = None
    is_late: bool = False


class PendingRow(msgspec.Struct, frozen=True):
    """The pending events of a dataset for a DAG, and when the oldest arrived. `events` 10,001: more than 10,000."""

    uri: str
    events: int
    oldest_at: datetime


class EventRow(msgspec.Struct, frozen=True):
    """An event of the ledger. (source, id) is the producer's identity of it. `uri` is its dataset.

    In a list `extra` is None after the first events, whose extra is as much as is read at once.
    """

    number: int
    uri: str
    source: str
    id: str
    occurred_at: datetime
    received_at: datetime
    extra: dict[str, Any] | None
    producer: Producer | None


class OutcomeRow(msgspec.Struct, frozen=True):
    """The outcome of an event for a DAG: `pending`, `consumed` by a run, or `discarded` for a reason.

    `at` is the arrival of a pending event, the creation of the run, or the time of the discard.
    """

    number: int
    dag_id: str
    outcome: Annotated[str, listing(("pending", "consumed", "discarded"))]
    run_id: str | None
    reason: str | None
    run_state: RunStateName | None = None
    at: datetime | None = None


async def get_or_create_ids(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """The ids of these datasets; creates new ones. Called once in a transaction, before any DAG is locked."""
    found = {uri: db.memory.dataset_ids[uri] for uri in uris if uri in db.memory.dataset_ids}
    if unknown := [uri for uri in uris if uri not in found]:
        for uri, id_ in await db.fetch(_SQL["known_datasets"], unknown):
            found[uri] = id_
            db.memory.dataset_ids.remember(uri, id_)
    if new := [uri for uri in uris if uri not in found]:
        # Not remembered, because this transaction may be rolled back.
        found |= await create(db, new)
    return found


async def create(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """Create the datasets that do not exist, with references of matching patterns, and read the ids of all."""
    if made := {row["uri"]: row["id"] for row in await db.fetch(_SQL["insert_datasets"], list(uris))}:
        await references.add_pattern_references(db, made)
    return made if len(made) == len(uris) else await read(db, uris)


async def expected(db: Db, uris: Collection[str]) -> set[str]:
    """The URIs that are datasets or that the pattern of a DAG matches."""
    known = set(await read(db, uris))
    return known | (await references.awaited(db, new) if (new := set(uris) - known) else set())


async def read(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """The ids of the datasets that exist."""
    return {row["uri"]: row["id"] for row in await db.fetch(_SQL["known_datasets"], list(uris))}


class Recorded(NamedTuple):
    """The DAGs with new pending events; `arrived` has these events for DAGs that inspect events."""

    dag_ids: Collection[str]
    arrived: Mapping[str, Sequence[EventKey]]


async def record(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> Recorded:
    """Write the events to the ledger and queue them for their consumers. Creates new datasets."""
    known = await get_or_create_ids(db, {message.body.uri for message in messages})
    rows = await db.fetch(
        _SQL["record_events"],
        [known[message.body.uri] for message in messages],
        [message.id.source if message.id else "" for message in messages],
        [message.id.id if message.id else "" for message in messages],
        [message.body.extra for message in messages],
        [message.at for message in messages],
        db.now,
        *producer_columns([producer_of(message) for message in messages]),
    )
    await _note_ignored(db, sorted({(known[message.body.uri], name) for message in messages for name in message.ignored}))
    new: dict[str, list[EventKey]] = defaultdict(list)
    for dag_id, dataset_id, event_id in rows:
        if event_id is not None:
            new[dag_id].append(EventKey(dataset_id, event_id))
    return Recorded({row[0] for row in rows}, new)


async def _note_ignored(db: Db, fields: Sequence[tuple[int, str]]) -> None:
    """Note the fields, by dataset, that events have and this version ignores: each once an hour, and a few of each dataset."""
    noted, since = db.memory.ignored_fields, db.now - IGNORED_EVERY
    if due := [field for field in fields if field not in noted or noted[field] < since]:
        await db.execute(_SQL["note_ignored"], *zip(*due, strict=True), db.now, MAX_IGNORED)
        db.on_commit += [partial(noted.remember, field, db.now) for field in due]


async def ignored_fields(db: Db, uri: str) -> list[str]:
    """The fields of the last events of a dataset that this version ignores."""
    return [row[0] for row in await db.fetch(_SQL["ignored_fields"], uri, IGNORED_FOR)]


def consumed_columns(effects: Sequence[ConsumeEvents]) -> Sequence[Sequence[Any]]:
    rows = [(effect.dag_id, event.dataset_event_id, effect.dag_run_id) for effect in effects for event in effect.events]
    return list(zip(*rows, strict=True))


async def discard(db: Db, effects: Sequence[DiscardEvents]) -> None:
    rows = [(effect.dag_id, event.dataset_event_id, effect.reason) for effect in effects for event in effect.events]
    await db.execute(_SQL["discard"], *zip(*rows, strict=True), db.now)


async def list_datasets(db: Db, prefix: str | None, limit: int, after: str | None = None) -> list[DatasetRow]:
    """The datasets by URI; those after one."""
    rows = await db.fetch(_SQL["list_datasets"], prefix, limit, after, COUNTED, IGNORED_FOR)
    rhythms = await dataset_pages.rhythms_of(db, [row["uri"] for row in rows])
    return [_dataset_row(row, rhythms[row["uri"]], db.now) for row in rows]


def _dataset_row(row: Any, rhythm: Rhythm, now: datetime) -> DatasetRow:
    last, interval_s = rhythm.last_event_at, rhythm.interval_s
    return DatasetRow(**row, last_event_at=last, interval_s=interval_s, is_late=rhythm.is_late(now))


async def supplied(db: Db, uris: Collection[str]) -> set[str]:
    """The datasets among these that a task updates or that had an event."""
    return {row["uri"] for row in await db.fetch(_SQL["supplied"], list(uris))}


async def pending_counts(db: Db, dag_id: str) -> list[PendingRow]:
    """The number of pending events of a DAG by URI; nothing is locked."""
    return [PendingRow(*row) for row in await db.fetch(_SQL["pending_counts"], dag_id, COUNTED)]


async def events(
    db: Db, uri: str, id_: str | None, limit: int, before: int | None = None, extra_bytes: int = EXTRA_BYTES
) -> list[EventRow]:
    """The events of a dataset, newest first; with `id_` only events of that id; those before the number of an event."""
    return [EventRow(*with_producer(row)) for row in await db.fetch(_SQL["events"], uri, id_, limit, before, extra_bytes)]


async def event(db: Db, number: int) -> EventRow | None:
    rows = await db.fetch(_SQL["event"], number)
    return EventRow(*with_producer(rows[0])) if rows else None


async def made_by_runs(db: Db, runs: Sequence[tuple[str, str]], limit: int, extra_bytes: int = EXTRA_BYTES) -> list[EventRow]:
    """The first events of each run, by its DAG and its id; at most `limit` of each."""
    rows = await db.fetch(_SQL["made_by_runs"], *zip(*runs, strict=True), limit, extra_bytes) if runs else ()
    return [EventRow(*with_producer(row)) for row in rows]


async def outcomes(db: Db, numbers: Collection[int]) -> Mapping[int, list[OutcomeRow]]:
    """The outcomes of these events, by event and then by DAG."""
    found: dict[int, list[OutcomeRow]] = defaultdict(list)
    for row in [OutcomeRow(*row) for row in await db.fetch(_SQL["outcomes"], list(numbers))]:
        found[row.number].append(row)
    return found


async def whole_since(db: Db) -> int | None:
    """The first month that is complete in the ledger; None if no event was ever dropped."""
    rows = await db.fetch(_SQL["whole_since"])
    return rows[0][0] if rows else None
