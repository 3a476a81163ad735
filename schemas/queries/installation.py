"""The installation that a database belongs to, and whether the database was restored.

A database has an identity, which a copy keeps, and a home: the cluster and the database in it where daemons worked with it last.
In another home it is a copy, such as a restored backup. Daemons do not work with a held database until the restore is settled.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.effect.submission import KeepEnd
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.timetable.tick import Tick

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

_SQL = load("installation")

IDS_APART = 100_000_000
"""Ids of runs and events that are left out after a restore: more than were given out since the backup."""

EPOCH = "#"
"""Between the identity and the number of restores."""

ARRIVALS = 10_000
"""The newest arrivals of events whose snapshots are compared with the cluster. Those before have no greater ids."""

OTHER_HOME = "the database was copied or restored: daemons worked with it in {} last, and it is in {} now"
IDS_AHEAD = "its transaction ids are greater than those of its cluster: it was restored into another cluster"


class Installation(msgspec.Struct, frozen=True):
    """The installation of a database. `identity` and `home` are empty before the first daemon.

    `restores` counts the settled restores. `held_since` and `hold_reason`: no daemon works with the database, whose newest commit
    is of `lost_since`; None if it had none. `files_are_read`: the files of the DAG folder have been applied once.
    """

    identity: str
    home: str
    restores: int
    held_since: datetime | None
    hold_reason: str
    lost_since: datetime | None
    files_are_read: bool

    @property
    def epoch(self) -> str:
        """The identity since the last restore: what was noted under an earlier one proves nothing."""
        return f"{self.identity}{EPOCH}{self.restores}" if self.restores else self.identity


class TimedDag(NamedTuple):
    """A DAG with a timetable, which it got at `timed_since`; `last_tick` is the last decided one."""

    dag_id: str
    version_id: int
    timed_since: datetime
    last_tick: Tick | None


class Release(NamedTuple):
    """How a held database is released: the home that it has now, and the identity that it gets or keeps.

    `offsets`: the next offsets of partitions by key. `xact_shift` is 0 where the ids of the cluster follow the stored ones.
    """

    home: str
    identity: str
    offsets: Mapping[str, int]
    xact_shift: int
    pause: bool


async def identity(db: Db) -> str:
    """The id of the installation, which only a copy of its database has too; kept in the memory of the process."""
    if not db.memory.installation:
        db.memory.installation = (await db.fetch(_SQL["identity"]))[0][0]
    return db.memory.installation


async def secret(db: Db) -> bytes:
    """The secret that the daemons of the installation share; kept in the memory of the process."""
    if not db.memory.secret:
        db.memory.secret = (await db.fetch(_SQL["secret"]))[0][0]
    return db.memory.secret


async def read(connection: "Connected") -> Installation | None:
    """The installation; None for a database without these columns, which lacks a migration."""
    if not await connection.fetchval(_SQL["exists"]):
        return None
    ((*facts,),) = await connection.fetch(_SQL["read"])
    return Installation(*facts)


async def settle_in(connection: "Connected", home: str) -> None:
    """Give a database its home and its identity, if no daemon has worked with it yet."""
    await connection.execute(_SQL["settle_in"], home)


async def hold(connection: "Connected", reason: str, lost_since: datetime | None) -> None:
    """Keep all daemons from the database, and fence what they have read, unless it is held already."""
    await connection.execute(_SQL["hold"], reason, lost_since)


async def why_restored(connection: "Connected", known: Installation, home: str) -> str | None:
    """Why the database is no longer the one that daemons worked with last; None if it is, or is held already."""
    if known.held_since is not None:
        return None
    if known.home != home:
        return OTHER_HOME.format(known.home, home)
    return IDS_AHEAD if await connection.fetchval(_SQL["newest_arrival_ahead"]) else None


async def newest_commit(connection: "Connected") -> datetime | None:
    """The newest commit or heartbeat of a daemon that the database has."""
    at: datetime | None = await connection.fetchval(_SQL["newest_commit"])
    return at


async def found(db: Db) -> Installation:
    """The installation of a migrated database."""
    return Installation(*(await db.fetch(_SQL["read"]))[0])


async def lock(db: Db) -> Installation:
    """Lock the installation against other releases, and read it."""
    await db.execute(_SQL["lock"])
    return await found(db)


async def ids_ahead(db: Db) -> int:
    """The greatest transaction id that the database has and its cluster has not given out yet; 0 if there is none."""
    return int((await db.fetch(_SQL["ahead"], ARRIVALS))[0][0])


async def release(db: Db, how: Release) -> None:
    """Let daemons work with the database again. Void receipts, markers and claims; move the partitions."""
    await db.execute(_SQL["release"], how.home, how.identity, IDS_APART, how.xact_shift)
    if how.offsets:
        await db.execute(_SQL["move_partitions"], list(how.offsets), list(how.offsets.values()))
        await db.execute(_SQL["resolve_incidents"], list(how.offsets))
    if how.pause:
        await db.execute(_SQL["pause_all"])


async def timed_dags(db: Db) -> list[TimedDag]:
    """Lock the DAGs that have a timetable."""
    return [
        TimedDag(dag_id, version_id, since, None if date is None else Tick(date, start, end, end))
        for dag_id, version_id, since, date, start, end in await db.fetch(_SQL["timed_dags"])
    ]


async def pass_ticks(db: Db, passed: Mapping[str, Tick]) -> None:
    """The ticks of these DAGs up to these are decided."""
    if passed:
        ticks = [(tick.logical_date, tick.interval_start, tick.interval_end) for tick in passed.values()]
        await db.execute(_SQL["pass_ticks"], list(passed), *map(list, zip(*ticks, strict=True)))


async def forget_ends(db: Db) -> None:
    """Delete the ends of an earlier restore."""
    await db.execute(_SQL["forget_ends"])


async def store_ends(db: Db, ends: Sequence[KeepEnd]) -> int:
    """Store the ends of attempts that have no row yet, of runs that have one. Returns how many."""
    status = await db.execute(_SQL["store_ends"], *end_columns(ends)) if ends else "0"
    return int(status.rpartition(" ")[2])


def end_columns(ends: Sequence[KeepEnd]) -> Sequence[Sequence[Any]]:
    """The arguments of `store_ends`."""
    return columns(ends)[:-1]


async def tokens(db: Db, ids: Collection[UUID]) -> Mapping[UUID, str]:
    """The tokens of attempts, whether they are on record or not."""
    return dict(map(tuple, await db.fetch(_SQL["tokens"], list(ids))))


async def known_runs(db: Db, runs: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The runs that exist, of these DAGs and ids."""
    dag_ids, run_ids = zip(*runs, strict=True) if runs else ((), ())
    return {(dag_id, run_id) for dag_id, run_id in await db.fetch(_SQL["known_runs"], dag_ids, run_ids)}


async def known_attempts(db: Db, ids: Collection[UUID]) -> set[UUID]:
    """The attempts that are on record, of these."""
    return {row[0] for row in await db.fetch(_SQL["known_attempts"], list(ids))}


async def open_attempts(db: Db) -> int:
    """How many attempts have not ended."""
    return int((await db.fetch(_SQL["open_attempts"]))[0][0])


async def files_are_read(db: Db) -> bool:
    """Whether the files of the DAG folder have been applied once."""
    return bool((await db.fetch(_SQL["files_are_read"]))[0][0])


async def note_files_read(db: Db) -> None:
    """The files of the DAG folder have been applied once."""
    await db.execute(_SQL["note_files_read"])
