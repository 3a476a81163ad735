"""Task instances and pools."""

from collections.abc import Collection, Sequence

from tidegate.schemas.effect import InsertTask, UpdateTask
from tidegate.schemas.error import InvariantError
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import TaskView

_SQL = load("tasks")
_INSTANCES = _SQL["instances"]
_INSERT = _SQL["insert_tasks"]
_UPDATE = _SQL["update_tasks"]
_READY = _SQL["ready"]
_LOCK_POOL = _SQL["lock_pool"]
_OCCUPIED = _SQL["occupied"]

UNLIMITED = -1

Key = tuple[int, int]
"""(dag_run_id, task_index)"""


async def instances(db: Db, keys: Collection[Key]) -> dict[Key, TaskView]:
    """These task instances; their runs are locked."""
    if not keys:
        return {}
    rows = await db.fetch(_INSTANCES, *zip(*keys, strict=True))
    return {(row[0], row[1]): _view(*row) for row in rows}


async def insert(db: Db, effects: Sequence[InsertTask]) -> None:
    await db.execute(_INSERT, *columns(effects))


async def update(db: Db, effects: Sequence[UpdateTask]) -> None:
    await db.execute(_UPDATE, *columns(effects))


async def ready(db: Db, pool: str, limit: int) -> list[Key]:
    """Task instances that wait for a slot, oldest run first: a guess, to be looked at again under lock.

    Up to `limit` of those waiting for the first time, and as many of those whose time for another try has come.
    """
    return sorted((row[0], row[1]) for row in await db.fetch(_READY, pool, limit))


async def free_slots(db: Db, pool: str, wanted: int) -> int:
    """How many of the wanted slots are free; the pool is locked, so that no other daemon takes them too.

    Never negative: an over-committed pool has none.
    """
    rows = await db.fetch(_LOCK_POOL, pool)
    if not rows:
        raise InvariantError(f"pool {pool!r} does not exist")
    if (slots := rows[0]["slots"]) == UNLIMITED:
        return wanted
    occupied = (await db.fetch(_OCCUPIED, pool))[0][0]
    return int(min(max(slots - occupied, 0), wanted))


def _view(run: int, index: int, state: str, try_number: int, succeeded: int, failed: int) -> TaskView:
    return TaskView(
        dag_run_id=run,
        task_index=index,
        state=TaskState(state),
        try_number=try_number,
        upstream_success=succeeded,
        upstream_failed=failed,
    )
