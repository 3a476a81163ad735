"""The outbox: events that a transaction has committed to publish.

A row is one event, or several moves of a run's tasks in one transaction, one per line; the ids of all moves but the first follow
from the id of the row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.effect.task import OutletUpdated, TaskMoved
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import StoredDeadLetter
from tidegate.schemas.queries.sql import load
from tidegate.schemas.queries.unit_of_work import UnitOfWork
from tidegate.schemas.wire.event import DatasetUpdated, Kind, TaskStateChanged, encode

_SQL = load("outbox")

SHARDS = 8
"""The most daemons that relay at once. All events of a run are in one shard, so that they keep their order."""

TOGETHER = 8
"""The most moves of a run's tasks in a row: as many as Postgres stores without compression."""

REPLAY = "replay"
"""The kind of a row that sends a dead letter to its topic again."""

Row = tuple[int, str, str, str, datetime, bytes]


class OutboxRow(msgspec.Struct, frozen=True):
    """A row to publish. `key` is the Kafka key, or the id of a dead letter to publish or replay.

    Moves of a run's tasks may share a row: `event_id` is then that of the first, the ids of the others continue its number, and
    `payload` has a line for each.
    """

    id: int
    shard: int
    kind: Kind
    key: str
    event_id: str
    time: datetime
    payload: bytes
    is_replay: bool = False

    def check(self) -> None:
        """Raises ValueError for a row that was damaged."""
        if self.kind is Kind.TASK_STATE:
            int(self.event_id.rpartition("/")[2])
        elif self.kind is Kind.DEAD_LETTER and not 0 <= int(self.key) < 2**63:
            raise ValueError(f"{self.key} is no id of a dead letter")

    def events(self) -> Iterator[tuple[str, bytes]]:
        """The id and the payload of each event."""
        if self.kind is not Kind.TASK_STATE:
            yield self.event_id, self.payload
            return
        run, _, first = self.event_id.rpartition("/")
        for seq, payload in enumerate(self.payload.split(b"\n"), int(first)):
            yield f"{run}/{seq}", payload


class UnreadableRow(msgspec.Struct, frozen=True):
    """A row that was damaged, and how. It stays, and delays no other."""

    id: int
    reason: str


class Seen(NamedTuple):
    """The rows that were read before: all below an id, and some others."""

    below: int
    others: Collection[int]


ALL = Seen(2**63 - 1, ())
"""Every row, also the new ones."""

READABLE = (*map(str, Kind), REPLAY)
"""The kinds of rows that this version publishes; rows of others wait for a daemon of the version that wrote them."""


def event_columns(effects: Sequence[RunMoved | TaskMoved | OutletUpdated]) -> Sequence[Sequence[Any]]:
    """The columns of the rows. The rows of a run keep its order, and get rising ids because its lock is held."""
    return list(zip(*_rows(effects), strict=True))


async def announce(unit: UnitOfWork, letters: Sequence[StoredDeadLetter]) -> None:
    """Publish dead letters. `key` is the id of each; the relay reads its columns before it sends it."""
    if letters:
        await unit.write(_SQL["insert_outbox"], *zip(*map(_announcement, letters), strict=True))


async def replay(db: Db, letters: Sequence[tuple[int, str, datetime]]) -> None:
    """Send dead letters, given as (id, partition, time), to their topics again."""
    if letters:
        rows = [(shard(partition), REPLAY, str(id_), f"{REPLAY}/{id_}", at, b"") for id_, partition, at in letters]
        await db.execute(_SQL["insert_outbox"], *zip(*rows, strict=True))


async def next_rows(
    db: Db, held: Mapping[int, int], lowest: int, limit: int, without: Collection[int] = (), among: Seen = ALL
) -> list[OutboxRow | UnreadableRow]:
    """The oldest rows of these shards from the id `lowest` on, `without` some, or `among` the ones that were read before.

    No cursor: rows that commit late are read late.

    `held`: the epoch of the lease by shard. Shards whose lease has another epoch by now are left out.
    """
    rows = lowest, limit, READABLE, list(without), among.below, list(among.others)
    found = await db.fetch(_SQL["next_outbox"], list(held), list(held.values()), *rows)
    return [_read(*row) for row in found]


async def delete(db: Db, ids: Sequence[int], held: Mapping[int, int]) -> None:
    """Delete rows that the broker has acknowledged; rows of shards with a new owner stay, and the owner publishes them again."""
    await db.execute(_SQL["delete_outbox"], ids, list(held), list(held.values()))


def _read(id_: int, shard: int, kind: str, key: str, event_id: str, time: datetime, payload: bytes) -> OutboxRow | UnreadableRow:
    is_replay = kind == REPLAY
    row = OutboxRow(id_, shard, Kind.DEAD_LETTER if is_replay else Kind(kind), key, event_id, time, payload, is_replay)
    try:
        row.check()
    except ValueError as error:
        return UnreadableRow(id_, str(error))
    return row


def _rows(effects: Sequence[RunMoved | TaskMoved | OutletUpdated]) -> Iterator[Row]:
    """The rows of the effects. Moves of tasks are numbered per run, so only the moves of a run must keep their order."""
    moves: dict[int, list[TaskStateChanged]] = defaultdict(list)
    for effect in effects:
        if isinstance(effect, TaskMoved):
            moves[effect.dag_run_id].append(effect.event)
        else:
            yield _row(effect)
    for of_run in moves.values():
        for start in range(0, len(of_run), TOGETHER):
            yield _together(of_run[start : start + TOGETHER])


def _together(moves: Sequence[TaskStateChanged]) -> Row:
    """One row of moves of a run's tasks in one transaction: their numbers are consecutive, its time is that of the first."""
    first = moves[0]
    key = f"{first.dag_id}/{first.run_id}"
    payload = b"\n".join(map(encode, moves))
    return shard(key), Kind.TASK_STATE, key, f"{key}/tasks/{first.seq}", first.at, payload


def _row(effect: RunMoved | OutletUpdated) -> Row:
    if isinstance(effect, RunMoved):
        event = effect.event
        key = f"{event.dag_id}/{event.run_id}"
        return shard(key), Kind.DAG_RUN_STATE, key, f"{key}/{event.seq}", event.at, encode(event)
    data = encode(DatasetUpdated(uri=effect.uri, extra=effect.extra))
    return shard(effect.uri), Kind.DATASET_UPDATED, effect.uri, effect.event_id, effect.at, data


def _announcement(letter: StoredDeadLetter) -> Row:
    partition = f"{letter.topic}/{letter.partition}"
    # The time distinguishes the record from one at the same offset of a topic that was created again.
    event_id = f"{partition}/{letter.offset}@{letter.recorded_at.isoformat()}"
    return shard(partition), Kind.DEAD_LETTER, str(letter.id), event_id, letter.received_at, b""


def shard(key: str) -> int:
    """The shard of a key. Never changes: daemons of two versions write events of one run, which keep their order in one shard."""
    return crc32(key.encode()) % SHARDS


def shards() -> Iterator[int]:
    """All shards."""
    yield from range(SHARDS)
