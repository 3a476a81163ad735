"""Pools: how many slots are free, and who is given some."""

from collections.abc import Sequence

from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.effect import CountAdmitted
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import PoolView

_SQL = load("pools")
_LOOK = _SQL["look_at_pool"]
_LOCK = _SQL["lock_pools"]
_OCCUPIED = _SQL["occupied"]
_ACTIVE = _SQL["active_everywhere"]
_COUNT_ADMITTED = _SQL["count_admitted"]
_IN_DEMAND = _SQL["pools_in_demand"]

UNLIMITED = -1


async def in_demand(db: Db) -> list[str]:
    """The pools that somebody waits for."""
    return [row[0] for row in await db.fetch(_IN_DEMAND)]


async def look(db: Db, name: str, parallelism: int) -> PoolView:
    """A pool as it seems to be: nothing is locked. One that somebody removed has no room."""
    rows = await db.fetch(_LOOK, name)
    if not rows:
        return PoolView(name=name, open=0)
    slots, admitted, occupied = rows[0]
    return PoolView(name=name, open=_open(slots, occupied), parallel=await _parallel(db, parallelism), admitted=admitted)


async def lock(db: Db, name: str, parallelism: int) -> PoolView:
    """A pool that nobody else can give slots of until this transaction ends.

    Where there is a limit for the whole installation, the default pool stands for that.
    """
    names = {name, DEFAULT_POOL} if parallelism else {name}
    found = {row[0]: row for row in await db.fetch(_LOCK, sorted(names))}
    if name not in found:
        return PoolView(name=name, open=0)
    _, slots, admitted = found[name]
    occupied = 0 if slots == UNLIMITED else (await db.fetch(_OCCUPIED, name))[0][0]
    return PoolView(name=name, open=_open(slots, occupied), parallel=await _parallel(db, parallelism), admitted=admitted)


async def count_admitted(db: Db, effects: Sequence[CountAdmitted]) -> None:
    await db.execute(_COUNT_ADMITTED, *columns(effects))


def _open(slots: int, occupied: int) -> int | None:
    """Never negative: an over-committed pool has none."""
    return None if slots == UNLIMITED else max(slots - occupied, 0)


async def _parallel(db: Db, parallelism: int) -> int | None:
    if not parallelism:
        return None
    return max(parallelism - int((await db.fetch(_ACTIVE))[0][0]), 0)
