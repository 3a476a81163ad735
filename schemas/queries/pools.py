"""Pools: free slots, lists and changes."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import PoolView

_SQL = load("pools")

UNLIMITED = -1
LONGEST_NAME = 250

MOST_SLOTS = 2**31 - 1

NAME_RULE = f"a name is 1 to {LONGEST_NAME} printable characters, is not . or .., and does not end with /queue"
"""The API reads `x/queue` as the queue of the pool `x`, and clients take `.` and `..` out of addresses."""


class PoolRow(msgspec.Struct, frozen=True):
    """A line of the list of pools. `running`, `queued` and `waiting` count slots; `slots` -1 is unlimited.

    `waits_since`: the time at which the task that waits longest became ready.
    """

    name: str
    slots: int
    running: int
    queued: int
    waiting: int
    waiting_tasks: int = 0
    waits_since: datetime | None = None

    @property
    def open(self) -> int | None:
        """The number of free slots; None: unlimited."""
        return _open(self.slots, self.running + self.queued)


class NarrowPool(msgspec.Struct, frozen=True):
    """A pool with fewer slots in all than each of `tasks` needs, which wait for it. One of them needs `wanted` slots."""

    name: str
    slots: int
    tasks: int
    wanted: int


class ChangedPool(msgspec.Struct, frozen=True):
    """`slots_before` is None for a new pool."""

    name: str
    slots: int
    slots_before: int | None


class DeletedPool(msgspec.Struct, frozen=True):
    """`dags` still name the pool: their tasks wait until it exists again."""

    name: str
    dags: list[str]


def is_name(name: str) -> bool:
    """Whether a pool may have this name, by `NAME_RULE`."""
    is_part = name not in (".", "..") and not name.endswith("/queue")
    return name.isprintable() and 1 <= len(name) <= LONGEST_NAME and is_part


async def in_demand(db: Db) -> list[str]:
    """The pools with waiting tasks."""
    return [row[0] for row in await db.fetch(_SQL["pools_in_demand"])]


async def read(db: Db, name: str, parallelism: int) -> PoolView:
    """Read a pool without locking it. A removed pool has no capacity."""
    rows = await db.fetch(_SQL["read_pool"], name)
    if not rows:
        return PoolView(name=name, open=0, exists=False)
    slots, admitted, occupied, waits_since = rows[0]
    view = _view(name, slots, occupied, admitted, parallelism, await _parallel(db, parallelism))
    return msgspec.structs.replace(view, waits_since=waits_since)


async def lock(db: Db, name: str, parallelism: int) -> PoolView:
    """Lock a pool, so that no other transaction gives slots of it.

    With a limit for the whole installation, the lock of the default pool protects that limit.
    """
    names = {name, DEFAULT_POOL} if parallelism else {name}
    found = {row[0]: row for row in await db.lock(_SQL["lock_pools"], sorted(names))}
    if name not in found:
        return PoolView(name=name, open=0, exists=False)
    _, slots, admitted = found[name]
    occupied = 0 if slots == UNLIMITED else (await db.fetch(_SQL["occupied"], name))[0][0]
    return _view(name, slots, occupied, admitted, parallelism, await _parallel(db, parallelism))


async def active(db: Db) -> int:
    """The number of active tasks in the whole installation."""
    return int((await db.fetch(_SQL["active_everywhere"]))[0][0])


async def list_pools(
    db: Db, name: str | None = None, counted: int | None = None, *, after: str | None = None, limit: int | None = None
) -> list[PoolRow]:
    """Pools by name: all, the one named, or the first ones after a name.

    Of the tasks that wait for each, `counted` are read at most.
    """
    return [PoolRow(*row) for row in await db.fetch(_SQL["list_pools"], name, counted, after, limit)]


async def missing(db: Db) -> Mapping[str, int]:
    """By name of a pool that does not exist, the number of tasks that wait for it, counted up to `COUNTED`."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["missing_pools"], COUNTED)}


async def narrow(db: Db) -> list[NarrowPool]:
    """The pools that never have the slots that a task waits for, among the `COUNTED` tasks that wait longest for each pool."""
    return [NarrowPool(*row) for row in await db.fetch(_SQL["narrow_pools"], COUNTED)]


async def lock_slots(db: Db, name: str) -> int | None:
    """Lock a pool for a change, and read its slots. None: it does not exist."""
    rows = await db.fetch(_SQL["lock_slots"], name)
    return int(rows[0][0]) if rows else None


async def lock_if_named(db: Db, name: str | None) -> bool:
    """Lock the pool of that name. False: it does not exist. True, and nothing is locked, without a name."""
    return name is None or await lock_slots(db, name) is not None


async def set_slots(db: Db, name: str, slots: int, *, creates: bool = False) -> bool:
    """Create the pool, or change its slots; with `creates` only the first. Returns whether it did."""
    return bool(await db.fetch(_SQL["set_slots"], name, slots, creates))


async def tasks_in(db: Db, name: str) -> int:
    """The number of tasks that are active in the pool, wait for its slots, or are up for retry in it."""
    return int((await db.fetch(_SQL["tasks_in_pool"], name))[0][0])


async def dags_with(db: Db, name: str) -> list[str]:
    """The DAGs with tasks in the pool."""
    return [row[0] for row in await db.fetch(_SQL["dags_with_pool"], name)]


async def backfills_with(db: Db, name: str) -> list[int]:
    """The backfills that have not ended, and whose tasks are in the pool."""
    return [row[0] for row in await db.fetch(_SQL["backfills_with_pool"], name)]


async def delete(db: Db, name: str) -> None:
    await db.execute(_SQL["delete_pool"], name)


def _view(name: str, slots: int, occupied: int, admitted: int, parallelism: int, parallel: int | None) -> PoolView:
    return PoolView(
        name=name,
        open=_open(slots, occupied),
        slots=None if slots == UNLIMITED else slots,
        parallel=parallel,
        admitted=admitted,
        parallelism=parallelism,
    )


def _open(slots: int, occupied: int) -> int | None:
    """The number of free slots: 0 for an over-committed pool, None for an unlimited one."""
    return None if slots == UNLIMITED else max(slots - occupied, 0)


async def _parallel(db: Db, parallelism: int) -> int | None:
    """How many more tasks may be active in the installation; None: no limit."""
    if not parallelism:
        return None
    return max(parallelism - await active(db), 0)
