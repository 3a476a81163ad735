"""Changes of pools: what the command line, the API and the pages share. Slow to import."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Concatenate, ParamSpec, TypeVar

from tidegate.daemon.postgres.database import Database
from tidegate.daemon.request import notify_daemons
from tidegate.daemon.work import Work
from tidegate.schemas.dag import DEFAULT_POOL
from tidegate.schemas.effect.audit import OF_POOL, object_name
from tidegate.schemas.error import NotFoundError, RequestError, StaleError
from tidegate.schemas.queries import audit_log, pools
from tidegate.schemas.queries.db import Db

T = TypeVar("T")
P = ParamSpec("P")


class Absent(Enum):
    """The expectation of a user who creates a pool: there is none of this name."""

    ABSENT = "absent"


async def set_slots(database: Database, user: str, name: str, slots: int, *, expected: int | Absent | None = None) -> int | None:
    """Create a pool, or change its slots; returns those before.

    Raises StaleError if these are not the `expected` ones, or if there are some for `ABSENT`.
    """
    return await _change(database, _set_slots, user, name, slots, expected)


async def delete(database: Database, user: str, name: str, *, expected: int | None = None) -> list[str]:
    """Delete a pool without active or waiting tasks, unless a backfill names it; returns the DAGs that still name it.

    Raises RequestError for any other.
    """
    return await _change(database, _delete, user, name, expected)


async def _change(database: Database, change: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `change` in one transaction, then notify the daemons, which admit tasks."""
    result = await database.run(change, *args, **kwargs)
    await notify_daemons(database, Work.ADMIT)
    return result


async def _set_slots(db: Db, user: str, name: str, slots: int, expected: int | Absent | None) -> int | None:
    before = await pools.lock_slots(db, name)
    _check_expected(name, before, expected)
    if before != slots:
        if not await pools.set_slots(db, name, slots, creates=before is None):
            return await _set_slots(db, user, name, slots, expected)  # another transaction has created it since
        action = "created a pool" if before is None else "changed a pool"
        await audit_log.record(db, user, action, object_name(OF_POOL, name=name), {"slots": slots, "slots_before": before})
    return before


async def _delete(db: Db, user: str, name: str, expected: int | None) -> list[str]:
    slots = await _deletable(db, name)
    _check_expected(name, slots, expected)
    await pools.delete(db, name)
    await audit_log.record(db, user, "deleted a pool", object_name(OF_POOL, name=name), {"slots_before": slots})
    return await pools.dags_with(db, name)


def _check_expected(name: str, slots: int | None, expected: int | Absent | None) -> None:
    if expected is not None and (Absent.ABSENT if slots is None else slots) != expected:
        raise _stale(name)


def _stale(name: str) -> StaleError:
    return StaleError(f"pool {name!r} was changed meanwhile; read it again, and repeat the change")


async def _deletable(db: Db, name: str) -> int:
    """The slots of a pool that may be deleted; locks its row. Raises RequestError for any other."""
    if name == DEFAULT_POOL:
        raise RequestError(f"{name} cannot be deleted: it is the pool of all tasks that name none")
    slots = await pools.lock_slots(db, name)
    if slots is None:
        known = ", ".join(pool.name for pool in await pools.list_pools(db))
        raise NotFoundError(f"there is no pool {name!r}; the pools are {known}")
    if tasks := await pools.tasks_in(db, name):
        there = "1 task is" if tasks == 1 else f"{tasks} tasks are"
        raise RequestError(f"{there} in pool {name!r}, active or waiting; delete it when they have ended")
    if ids := await pools.backfills_with(db, name):
        instead = f"`tidegate backfills set {ids[0]} --pool NAME` moves its tasks to another pool"
        raise RequestError(f"backfill {ids[0]} runs its tasks in pool {name!r}; {instead}, or delete the pool when it has ended")
    return slots
