"""Datasets, the event ledger, and the queue of what is pending."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents
from tidegate.schemas.message import Message
from tidegate.schemas.queries import references
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.read_plan import EventKey
from tidegate.schemas.view import PendingEvent
from tidegate.schemas.wire.event import DatasetUpdated

if TYPE_CHECKING:
    from asyncpg import Record

_SQL = load("datasets")


class DatasetRow(msgspec.Struct, frozen=True):
    """A line of the list of datasets."""

    uri: str
    name: str
    is_active: bool
    consumers: int
    producers: int
    events: int
    last_event_at: datetime | None


class PendingRow(msgspec.Struct, frozen=True):
    """How many events of a dataset wait for a DAG, and since when."""

    uri: str
    events: int
    oldest_at: datetime


async def ids(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """The ids of these datasets; those nobody knew before are made. Once in a transaction, and before any DAG is locked."""
    found = {uri: db.memory.dataset_ids[uri] for uri in uris if uri in db.memory.dataset_ids}
    if unknown := [uri for uri in uris if uri not in found]:
        for uri, id_ in await db.fetch(_SQL["known_datasets"], unknown):
            found[uri] = id_
            db.memory.remember_dataset(uri, id_)
    if new := [uri for uri in uris if uri not in found]:
        # Not remembered before the next look: this transaction may yet be rolled back.
        found |= await make(db, new)
    return found


async def make(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """Make those of these datasets that do not exist, and read the ids of all."""
    if made := {row["uri"]: row["id"] for row in await db.fetch(_SQL["insert_datasets"], list(uris))}:
        await references.match_new_datasets(db, made)
    return made if len(made) == len(uris) else await read(db, uris)


async def expected(db: Db, uris: Collection[str]) -> set[str]:
    """Those of these URIs that some DAG names, or that the pattern of one matches."""
    known = set(await read(db, uris))
    return known | (await references.awaited(db, new) if (new := set(uris) - known) else set())


async def read(db: Db, uris: Collection[str]) -> Mapping[str, int]:
    """The ids of these datasets, as far as they exist."""
    return {row["uri"]: row["id"] for row in await db.fetch(_SQL["known_datasets"], list(uris))}


class Recorded(NamedTuple):
    """The DAGs that got something new, and what, for those that look closer at events."""

    dag_ids: Collection[str]
    arrived: Mapping[str, Sequence[EventKey]]


async def record(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> Recorded:
    """Write the events to the ledger and queue them for their consumers."""
    known = await ids(db, {message.body.uri for message in messages})
    rows = await db.fetch(
        _SQL["record_events"],
        [known[message.body.uri] for message in messages],
        [message.id.source if message.id else "" for message in messages],
        [message.id.id if message.id else "" for message in messages],
        [message.body.extra for message in messages],
        [message.at for message in messages],
        db.now,
    )
    new: dict[str, list[EventKey]] = defaultdict(list)
    for dag_id, dataset_id, event_id in rows:
        if event_id is not None:
            new[dag_id].append(EventKey(dataset_id, event_id))
    return Recorded({row[0] for row in rows}, new)


async def satisfied(db: Db, floors: Mapping[str, int]) -> Mapping[str, set[str]]:
    """The URIs with pending events, by DAG. `floors`: from which event on to look, as below."""
    found: dict[str, set[str]] = defaultdict(set)
    for dag_id, uri in await db.fetch(_SQL["satisfied_leaves"], list(floors), list(floors.values())):
        found[dag_id].add(uri)
    return found


async def lock_pending(db: Db, floors: Mapping[str, int]) -> Mapping[str, tuple[PendingEvent, ...]]:
    """All pending events of these DAGs, whose rows are locked already: there are none below these `floors`."""
    return _by_dag(await db.fetch(_SQL["lock_pending"], list(floors), list(floors.values())))


async def lock_inputs(
    db: Db, most: Mapping[str, int | None], floors: Mapping[str, int]
) -> Mapping[str, tuple[PendingEvent, ...]]:
    """As `lock_pending`, with all that a condition may look at; of each DAG the first so many, or None: all."""
    return _by_dag(await db.fetch(_SQL["lock_inputs"], list(most), list(most.values()), [floors[dag_id] for dag_id in most]))


async def arrived(db: Db, keys: Sequence[tuple[str, int, int]]) -> Mapping[str, tuple[PendingEvent, ...]]:
    """The same for events that are known by DAG, dataset and id."""
    return _by_dag(await db.fetch(_SQL["read_arrived"], *zip(*keys, strict=True)))


def _by_dag(rows: "Sequence[Record]") -> Mapping[str, tuple[PendingEvent, ...]]:
    found: dict[str, list[PendingEvent]] = defaultdict(list)
    for dag_id, *event in rows:
        found[dag_id].append(PendingEvent(*event))
    return {dag_id: tuple(events) for dag_id, events in found.items()}


def consumed_columns(effects: Sequence[ConsumeEvents]) -> Sequence[Sequence[Any]]:
    rows = [
        (effect.dag_id, event.dataset_id, event.dataset_event_id, effect.dag_run_id)
        for effect in effects
        for event in effect.events
    ]
    return list(zip(*rows, strict=True))


async def discard(db: Db, effects: Sequence[DiscardEvents]) -> None:
    rows = [
        (effect.dag_id, event.dataset_id, event.dataset_event_id, effect.reason) for effect in effects for event in effect.events
    ]
    await db.execute(_SQL["discard"], *zip(*rows, strict=True), db.now)


async def list_datasets(db: Db, prefix: str | None, limit: int) -> list[DatasetRow]:
    """By URI."""
    return [DatasetRow(*row) for row in await db.fetch(_SQL["list_datasets"], prefix, limit)]


async def waiting(db: Db, dag_id: str, limit: int) -> list[PendingEvent]:
    """The oldest events that wait for a DAG, with all that conditions may look at; nothing is locked."""
    return [PendingEvent(*row) for row in await db.fetch(_SQL["read_waiting"], dag_id, limit)]


async def pending_of(db: Db, dag_id: str) -> list[PendingRow]:
    """What waits for a DAG, by URI; nothing is locked."""
    return [PendingRow(*row) for row in await db.fetch(_SQL["pending_counts"], dag_id)]
