"""Dead letters for the CLI: list, replay, discard. `inbox` inserts them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from tidegate.schemas.effect.audit import OF_DEAD_LETTER, object_name
from tidegate.schemas.queries import audit_log, outbox
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import listing
from tidegate.schemas.wire.event import Rejection

_SQL = load("dead_letters")


class DeadLetterState(StrEnum):
    """A dead letter is open, sent to its topic again, or discarded by a user."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """A filter of dead letters; None matches any. `since` and `until` compare `received_at`."""

    reason: Rejection | None = None
    topic: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class DeadLetterRow(msgspec.Struct, frozen=True):
    """A line of the list of dead letters."""

    id: int
    state: DeadLetterState
    topic: str
    partition: int
    offset: int
    reason: Annotated[str, listing(Rejection)]
    message: str
    value_bytes: int
    received_at: datetime
    replay_of: int | None


class DeadLetterStatus(msgspec.Struct, frozen=True):
    """The state of a dead letter, since when and by whom."""

    id: int
    state: DeadLetterState
    closed_at: datetime | None
    closed_by: str | None


class Closed(msgspec.Struct, frozen=True):
    """A dead letter that was just closed."""

    id: int
    topic: str
    partition: int
    offset: int
    reason: str


async def list_dead_letters(
    db: Db, state: DeadLetterState | None, chosen: DeadLetterFilter, limit: int, before: int | None = None
) -> list[DeadLetterRow]:
    """The dead letters of a filter, newest first; those before one."""
    rows = await db.fetch(_SQL["list_dead_letters"], state, *msgspec.structs.astuple(chosen), limit, before)
    return [DeadLetterRow(row[0], DeadLetterState(row[1]), *row[2:]) for row in rows]


async def open_of(db: Db, ids: Sequence[int]) -> list[DeadLetterRow]:
    """The open dead letters of these, oldest first."""
    rows = await db.fetch(_SQL["open_of"], ids)
    return [DeadLetterRow(row[0], DeadLetterState(row[1]), *row[2:]) for row in rows]


async def open_ids(db: Db, chosen: DeadLetterFilter) -> list[int]:
    """The open dead letters, oldest first."""
    return [row[0] for row in await db.fetch(_SQL["open_ids"], *msgspec.structs.astuple(chosen))]


async def count_open(db: Db) -> int:
    """The number of open dead letters, up to `COUNTED`."""
    (row,) = await db.fetch(_SQL["count_open"], COUNTED)
    return int(row[0])


async def read(db: Db, id_: int) -> dict[str, Any] | None:
    """One dead letter with all columns and its replays."""
    rows = await db.fetch(_SQL["read"], id_)
    return dict(rows[0]) if rows else None


async def status(db: Db, ids: Sequence[int]) -> list[DeadLetterStatus]:
    """The states of these dead letters by id; missing ones are left out."""
    return [DeadLetterStatus(row[0], DeadLetterState(row[1]), *row[2:]) for row in await db.fetch(_SQL["status"], ids)]


async def replay(db: Db, ids: Sequence[int], who: str) -> list[int]:
    """Replay the open dead letters of these to their topics, and write the audit log. Returns their ids."""
    closed = await _close(db, ids, DeadLetterState.REPLAYED, who, None)
    await outbox.replay(db, [(letter.id, f"{letter.topic}/{letter.partition}", db.now) for letter in closed])
    return [letter.id for letter in closed]


async def discard(db: Db, ids: Sequence[int], who: str, because: str) -> list[int]:
    """Discard the open dead letters of these, and write the audit log. Returns their ids."""
    return [letter.id for letter in await _close(db, ids, DeadLetterState.DISCARDED, who, because)]


async def _close(db: Db, ids: Sequence[int], state: DeadLetterState, who: str, because: str | None) -> list[Closed]:
    closed = sorted(
        (Closed(*row) for row in await db.fetch(_SQL["close"], ids, state, who, because)), key=lambda letter: letter.id
    )
    if closed:
        facts = {object_name(OF_DEAD_LETTER, id=letter.id): _facts(letter, because) for letter in closed}
        await audit_log.record_all(db, who, f"{state} a dead letter", facts)
    return closed


def _facts(letter: Closed, because: str | None) -> dict[str, Any]:
    place = {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset, "reason": letter.reason}
    return place if because is None else {**place, "because": because}


async def expire(db: Db, before: datetime, limit: int) -> list[DeadLetterState]:
    """Delete up to `limit` dead letters that arrived or were closed before a time. Returns the state of each."""
    return [DeadLetterState(row[0]) for row in await db.fetch(_SQL["expire"], before, limit)]


async def shrink(db: Db, most: int, limit: int) -> list[DeadLetterState]:
    """Delete up to `limit` dead letters while all of them take more than `most` bytes. Returns the state of each."""
    if not (await db.fetch(_SQL["is_large"], most))[0][0]:
        return []
    return [DeadLetterState(row[0]) for row in await db.fetch(_SQL["shrink"], most, limit)]
