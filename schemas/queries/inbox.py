"""Records from Kafka: offsets, duplicates, dead letters, ignored records."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import msgspec

from tidegate.schemas.error import FencedError
from tidegate.schemas.message import Message
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import EventId, TaskFinished

_SQL = load("inbox")

NOWHERE = "(0,0)"
"""A ctid that no row has."""


class Identity(msgspec.Struct, frozen=True, order=True, gc=False):
    """The CloudEvents identity of an event within its `scope`, the kind of event."""

    source: str
    id: str
    scope: str


class Recorded(NamedTuple):
    """When an id was recorded first, with the checksum of its event; None for an event that is not compared."""

    content: int | None
    received_at: datetime


class OffsetMove(msgspec.Struct, frozen=True):
    """A batch moves the partition `key` from `expected` to `new`, under the lease of `epoch`."""

    key: str
    epoch: int
    expected: int
    new: int


class StoredDeadLetter(msgspec.Struct, frozen=True):
    """A dead letter that was just inserted."""

    id: int
    topic: str
    partition: int
    offset: int
    recorded_at: datetime
    received_at: datetime


class IgnoredRow(msgspec.Struct, frozen=True):
    """How many records of a topic were ignored because of their kind."""

    topic: str
    what: str
    records: int
    last_at: datetime


class DeferredEnd(NamedTuple):
    """The end of an attempt that waits for a row. `body` is the event as JSON."""

    id: int
    source: str
    event_id: str
    occurred_at: datetime
    body: bytes

    @property
    def message(self) -> Message[TaskFinished]:
        body = msgspec.json.decode(self.body, type=TaskFinished)
        return Message(body=body, at=self.occurred_at, id=EventId(self.source, self.event_id))


async def deferred_ends(db: Db, ids: Collection[int]) -> Mapping[int, Message[TaskFinished]]:
    """The ends of attempts that wait for a row, by id, in the order of their arrival."""
    rows = [DeferredEnd(*row) for row in await db.fetch(_SQL["deferred_ends"], ids)]
    return {row.id: row.message for row in rows}


async def record_batch(
    db: Db, moves: Sequence[OffsetMove], ids: Sequence[Identity], contents: Sequence[int | None] = ()
) -> set[Identity]:
    """Move the offsets by compare-and-swap, in the global order, and record the ids; returns the ids that were recorded before.

    `contents` are the checksums of the events with these ids. Raises FencedError when an offset or epoch is not the expected one.
    """
    if not moves and not ids:
        return set()
    by_key = sorted(moves, key=attrgetter("key"))
    partitions = columns(by_key) if moves else [()] * 4
    places = [db.memory.lease_ctids.get(move.key, NOWHERE) for move in by_key]
    rows = await db.fetch(_SQL["record_batch"], *partitions, places, *(columns(ids) if ids else [()] * 3), contents)
    await _move_offsets(db, by_key, {key: place for moved, key, place, _ in rows if moved})
    return {Identity(*identity) for moved, *identity in rows if not moved}


async def _move_offsets(db: Db, moves: Sequence[OffsetMove], moved: dict[str, str]) -> None:
    """Move the remaining offsets by key, and remember the ctids of all. Raises FencedError."""
    if others := [move for move in moves if move.key not in moved]:
        moved |= {row[0]: row[1] for row in await db.fetch(_SQL["move_offsets"], *columns(others))}
    if len(moved) != len(moves):
        raise FencedError("another daemon took over a partition of this batch")
    db.memory.lease_ctids.update(moved)


async def pages(db: Db) -> int:
    """The number of pages of the table of ids."""
    return int((await db.fetch(_SQL["pages"]))[0]["pages"])


async def forget(db: Db, days: int, pages: range) -> int:
    """Delete the ids older than `days` on these pages of the table. Returns their number."""
    return int((await db.execute(_SQL["forget"], days, (pages.start, 0), (pages.stop, 0))).rpartition(" ")[2])


async def recorded(db: Db, ids: Collection[Identity]) -> Mapping[Identity, Recorded]:
    """The recorded ones among these ids."""
    rows = await db.fetch(_SQL["recorded_ids"], *columns(list(ids)))
    return {Identity(source, id_, scope): Recorded(content, at) for source, id_, scope, content, at in rows}


async def forget_ids(db: Db, ids: Sequence[Identity]) -> None:
    """Delete these ids: later events with them are new."""
    await db.execute(_SQL["forget_ids"], *columns(ids))


async def forget_portion(db: Db, source: str, after: tuple[str, str], limit: int) -> tuple[str, str] | None:
    """Delete the first ids of a source after an (id, scope): later events with them are new. Returns the last one."""
    rows = await db.fetch(_SQL["forget_portion"], source, *after, limit)
    return (rows[0]["event_id"], rows[0]["scope"]) if rows else None


async def insert_dead_letters(db: Db, letters: Sequence[DeadLetter]) -> list[StoredDeadLetter]:
    """Insert the dead letters that are not stored. Returns the new ones."""
    topics, partitions, offsets, keys, headers, *rest = columns(letters)
    texts = [msgspec.json.encode(pairs).decode() for pairs in headers]
    rows = await db.fetch(_SQL["insert_dead_letters"], topics, partitions, offsets, keys, texts, *rest)
    return [StoredDeadLetter(*row) for row in rows]


async def count_ignored(db: Db, counts: Mapping[tuple[str, str], int]) -> None:
    """Add to the counts of ignored records, by (partition, kind)."""
    rows = [(partition, what, counts[partition, what]) for partition, what in sorted(counts)]
    await db.execute(_SQL["count_ignored_records"], *zip(*rows, strict=True))


async def ignored(db: Db, *, after: tuple[str, str] | None = None, limit: int | None = None) -> list[IgnoredRow]:
    """The counts of ignored records by topic and kind, those after one."""
    return [IgnoredRow(*row) for row in await db.fetch(_SQL["ignored_records"], *(after or (None, None)), limit)]


async def whole_dead_letters(db: Db, ids: Sequence[int]) -> Mapping[int, DeadLetter]:
    """These dead letters by id, with their records; missing ones are left out."""
    return {row[0]: DeadLetter(*row[1:]) for row in await db.fetch(_SQL["whole_dead_letters"], ids)}
