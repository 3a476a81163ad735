"""The pools with their queues: which tasks have slots, which get them next, and why the others wait."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.daemon.read_model.terms import admission_blockers, terms_of
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.explain.facts import OccupyingTask
from tidegate.schemas.explain.reasons import AdmissionBlocker
from tidegate.schemas.queries import facts, leases, pools, queue_pages
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import PoolRow
from tidegate.schemas.queries.queue_pages import QueueRow

AT_WORK = 50
"""The active tasks of a pool that are listed."""


class QueuedTask(msgspec.Struct, frozen=True):
    """A task of a queue, and what blocks it; None: the next admission gives it its slots."""

    task: QueueRow
    blocked_by: Sequence[AdmissionBlocker] | None


class Pools(msgspec.Struct, frozen=True):
    """The pools; `missing` counts the tasks that wait for each pool that does not exist."""

    pools: Sequence[PoolRow]
    missing: Mapping[str, int]
    daemons: int


class PoolQueue(msgspec.Struct, frozen=True):
    """A pool with its queue. `pool` is None for one that does not exist, and that tasks wait for."""

    name: str
    pool: PoolRow | None
    occupying: Sequence[OccupyingTask]
    queue: Sequence[QueuedTask]
    has_more: bool
    daemons: int


async def read_pools(db: Db) -> Pools:
    return Pools(await pools.list_pools(db, counted=COUNTED), await pools.missing(db), len(await leases.live(db)))


async def read_queue(db: Db, name: str, settings: Settings, limit: int) -> PoolQueue:
    """Raises NotFoundError for a pool that neither exists nor has tasks that wait for it. `settings` apply without a daemon."""
    rows = await queue_pages.queue(db, name, limit + 1)
    pool = next(iter(await pools.list_pools(db, name, COUNTED)), None)
    if pool is None and not rows:
        raise NotFoundError(f"there is no pool {name!r}; `tidegate pools list` shows all")
    daemons = await leases.live(db)
    shown = rows[:limit]
    keys = [(row.dag_run_id, row.task_index) for row in shown]
    blockers = await admission_blockers(db, name, keys, terms_of(daemons, settings))
    return PoolQueue(
        name=name,
        pool=pool,
        occupying=await facts.occupying(db, pool=name, limit=AT_WORK),
        queue=[QueuedTask(row, blockers.get(key, ())) for row, key in zip(shown, keys, strict=True)],
        has_more=len(rows) > limit,
        daemons=len(daemons),
    )
