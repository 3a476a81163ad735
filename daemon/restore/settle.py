"""Releases a restored or emptied database: from which record daemons read on, and what counts as done.

The ends of attempts that the topic has are stored first, so that no attempt of a run of the backup runs again. Daemons are kept
from the database meanwhile, and everything else is one transaction: a settlement that dies is repeated.

Slow to import: a Kafka client.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

import msgspec

from tidegate.daemon.intake.batches import key_of, read
from tidegate.daemon.intake.former_offsets import open_source
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.restore.log_reading import bounds_of, records, starts_at
from tidegate.daemon.settings import Settings
from tidegate.events.source import Bounds, Partition, Record, Source
from tidegate.handlers.admission.select import run_of
from tidegate.schemas.effect.audit import INSTALLATION
from tidegate.schemas.effect.submission import KeepEnd
from tidegate.schemas.error import RequestError
from tidegate.schemas.graph import Graph
from tidegate.schemas.graph import bounds_of as bounds_of_timetable
from tidegate.schemas.message import Message
from tidegate.schemas.queries import audit_log, idle, installation, losses, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.installation import Release, TimedDag
from tidegate.schemas.timetable.tick import Tick, next_tick
from tidegate.schemas.wire.event import INCOMING, Kind, TaskFinished

Say = Callable[[str], None]

ENDS_AT_ONCE = 2_000

MOST_TICKS = 100_000
"""The ticks of a DAG that are passed over. One that has more is left to its catchup."""

NOT_HELD = "the database is not held: nothing has to be settled"


class ReadFrom(NamedTuple):
    """Where daemons read dataset events on: `latest`, `backup`, or the first record `at` a time.

    What came before counts as done: no timed run is made for a tick before.
    """

    what: str
    at: datetime | None = None


class Settled(msgspec.Struct, frozen=True):
    """A settled restore: how many there were, the next offsets by partition, and the known `ends` of attempts.

    `passed` are the DAGs whose missed ticks count as done.
    """

    restores: int
    identity: str
    offsets: Mapping[str, int]
    ends: int
    passed: Sequence[str]


async def settle(
    database: Database,
    settings: Settings,
    read_from: ReadFrom,
    user: str,
    because: str,
    *,
    is_copy: bool = False,
    pause: bool = False,
    say: Say = lambda _: None,
) -> Settled:
    """Let daemons work with the database, and write the audit log.

    `is_copy`: the installation that the database is a copy of goes on, so this one gets an identity and a secret of its own, and
    has none of its attempts. `pause`: every DAG is paused. Raises RequestError for a database that is not held.
    """
    if (await database.run(installation.found)).held_since is None:
        raise RequestError(NOT_HELD)
    known = await database.run(idle.positions)
    async with open_source(settings) as source:
        offsets = await next_offsets(source, settings, known, read_from)
        say("reading the ends of attempts")
        ends = 0 if is_copy else await _store_ends(database, source, settings, known)
    return await database.run(_release, offsets, read_from, (user, because), ends, is_copy=is_copy, pause=pause)


async def next_offsets(source: Source, settings: Settings, known: Mapping[str, int], read_from: ReadFrom) -> Mapping[str, int]:
    """The next offset of each partition, by key. The others stay where the database stands."""
    found: dict[str, int] = {}
    for kind in INCOMING:
        bounds = await bounds_of(source, settings.topic(kind))
        found |= await _offsets_of(kind, source, bounds, known, read_from)
    return found


async def _offsets_of(
    kind: Kind, source: Source, bounds: Mapping[Partition, Bounds], known: Mapping[str, int], read_from: ReadFrom
) -> Mapping[str, int]:
    """Files are read from the folder. Ends of attempts have no effect on a database without any attempt."""
    ends = {key_of(partition): end for partition, (_, end) in bounds.items()}
    if kind is Kind.DAG_FILE_CHANGED:
        return ends
    if kind is Kind.TASK_FINISHED:
        return {key: end for key, end in ends.items() if key not in known}
    if read_from.what == "latest":
        return ends
    starts = await starts_at(source, bounds, read_from.at)
    return {key_of(p): offset for p, offset in starts.items() if read_from.at is not None or key_of(p) not in known}


async def _store_ends(database: Database, source: Source, settings: Settings, known: Mapping[str, int]) -> int:
    """Store the ends behind the position of the database, of attempts that it may submit once more. Returns how many."""
    await database.run(installation.forget_ends)
    bounds = await bounds_of(source, settings.topic(Kind.TASK_FINISHED))
    stored, starts = 0, {partition: known.get(key_of(partition), start) for partition, (start, _) in bounds.items()}
    async for part in records(source, starts, bounds):
        ends = [end for record in part if (end := _end_of(record)) is not None]
        for first in range(0, len(ends), ENDS_AT_ONCE):
            stored += await database.run(installation.store_ends, ends[first : first + ENDS_AT_ONCE])
    return stored


def _end_of(record: Record) -> KeepEnd | None:
    reading = read(Kind.TASK_FINISHED, record).reading
    if not isinstance(reading, Message) or not isinstance(end := reading.body, TaskFinished):
        return None
    return KeepEnd(end.submission_id, end.token or "", run_of(end.submission_id), msgspec.to_builtins(end))


async def _release(
    db: Db, offsets: Mapping[str, int], read_from: ReadFrom, by: tuple[str, str], ends: int, *, is_copy: bool, pause: bool
) -> Settled:
    found, place = await installation.lock(db), await losses.server_identity(db.connection)
    if found.held_since is None:
        raise RequestError(NOT_HELD)
    identity = f"{place.database}/{uuid4()}" if is_copy or not found.identity else found.identity
    if not is_copy and found.lost_since is not None:
        await losses.record(db, place.timeline or "", found.lost_since, db.now, by[0])
    passed = await pass_ticks(db, db.now if read_from.what == "latest" else read_from.at)
    await installation.release(db, Release(place.database, identity, offsets, await installation.ids_ahead(db), pause))
    details = {"because": by[1], "read_from": _name(read_from), "is_copy": is_copy, "pause": pause, "reason": found.hold_reason}
    await audit_log.record(db, by[0], "settled a restore", INSTALLATION, details)
    return Settled(found.restores + 1, identity, offsets, ends, passed)


def _name(read_from: ReadFrom) -> str:
    return read_from.at.isoformat() if read_from.at is not None else read_from.what


async def pass_ticks(db: Db, until: datetime | None) -> list[str]:
    """Count the ticks of timetables up to `until` as done; returns the DAGs that have such ticks."""
    if until is None:
        return []
    dags = await installation.timed_dags(db)
    graphs = await versions.readable(db, {dag.version_id for dag in dags})
    passed = {}
    for dag in (dag for dag in dags if dag.version_id in graphs):
        if (tick := last_until(dag, graphs[dag.version_id], until)) is not None:
            passed[dag.dag_id] = tick
    await installation.pass_ticks(db, passed)
    return sorted(passed)


def last_until(dag: TimedDag, graph: Graph, until: datetime) -> Tick | None:
    """The last tick that is due until then; None if none is after the last decided one, or too many are."""
    found, last = None, dag.last_tick
    bounds = bounds_of_timetable(graph, dag.timed_since)
    for _ in range(MOST_TICKS):
        tick = next_tick(graph.timetable, last, bounds, until)
        if tick is None or tick == last or tick.run_after > until:
            return found
        found = last = tick
    return None
