"""The state of an admission, under locks to admit or without locks to explain."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.admission.select import SPARE, select_starving
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import backfills, dags, installation, pools, runs, starving, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import NO_LIMIT, Candidate, PoolView, RunView, TaskKey

PASSED_OVER = 1000
"""The candidates of locked runs that others are admitted in place of."""

GROWTH = 8
"""Factor by which the search for starving tasks grows while too few of the tasks found fit into their limits together."""


async def lock_admission(db: Db, ready: TasksReady) -> AdmissionState:
    """Lock the runs of the candidates and the pool. A pool without free slots is not locked.

    Candidates that another transaction moved to another pool before their runs were locked are left out; after a lock timeout
    also those whose rows other sessions hold, in place of which more are read.
    """
    pool = await pools.read(db, ready.pool, ready.parallelism)
    if not pool.free:
        return AdmissionState(db.now, pool)
    wanted = min(pool.free, ready.limit) + (PASSED_OVER if db.skips_locked else 0)
    first = await tasks.ready(db, ready.pool, wanted, NO_LIMIT if pool.open is None else pool.open)
    oldest = await _starving(db, ready, pool, wanted) if first else []
    candidates = {*first, *oldest}
    if limited := {candidate.limited_in for candidate in candidates if candidate.limited_in}:
        # The runs of a DAG are counted together while no other daemon admits to them; a held one may be released meanwhile.
        await dags.lock_unread(db, limited, skips=True)
    free = {candidate.dag_run_id for candidate in candidates if candidate.limited_in not in db.skipped}
    locked_runs = await runs.lock(db, free, skips=True)
    pool = await pools.lock(db, ready.pool, ready.parallelism)
    state = await _state(db, pool, _keys(first), _keys(oldest), locked_runs, pool.name, has_more=len(first) >= wanted)
    graphs = await versions.graphs(db, {run.version_id for run in locked_runs.values()})
    return msgspec.structs.replace(state, graphs=graphs, installation=await installation.identity(db))


async def preview_admission(db: Db, ready: TasksReady, keys: Sequence[TaskKey]) -> AdmissionState:
    """The state of an admission with these candidates in this order. Nothing is locked, and no version of a DAG is read."""
    pool = await pools.read(db, ready.pool, ready.parallelism)
    oldest = _keys(await _starving(db, ready, pool, len(keys)))
    found_runs = await runs.views(db, {dag_run_id for dag_run_id, _ in {*keys, *oldest}})
    return await _state(db, pool, keys, oldest, found_runs, has_more=False)


async def _starving(db: Db, ready: TasksReady, pool: PoolView, wanted: int) -> Sequence[Candidate]:
    """Tasks that have waited for more than `fair_after_s`; no query if the pool has none."""
    since, slots = db.now - timedelta(seconds=ready.fair_after_s), NO_LIMIT if pool.slots is None else pool.slots
    if pool.waits_since is None or pool.waits_since >= since:
        return []
    limit = most = wanted + SPARE
    while True:
        found = await starving.longest_waiting(db, ready.pool, since, limit, slots)
        selected = select_starving(found, most)
        if selected.admissible == most or len(found) < limit:
            return selected.candidates
        limit *= GROWTH


def _keys(candidates: Sequence[Candidate]) -> list[TaskKey]:
    return [candidate.key for candidate in candidates]


async def _state(
    db: Db,
    pool: PoolView,
    keys: Sequence[TaskKey],
    oldest: Sequence[TaskKey],
    found_runs: Mapping[int, RunView],
    of_pool: str | None = None,
    *,
    has_more: bool,
) -> AdmissionState:
    found = await tasks.waiting(db, {key for key in (*keys, *oldest) if key[0] in found_runs}, of_pool)
    backfill_ids = {run.backfill_id for run in found_runs.values() if run.backfill_id is not None}
    limited = {task.task_id for task in found.values() if task.per_run or task.per_dag}
    return AdmissionState(
        now=db.now,
        pool=pool,
        waiting=tuple(found[key] for key in keys if key in found),
        starving=tuple(found[key] for key in oldest if key in found),
        limited=tuple(await tasks.limited_activity(db, limited)) if limited else (),
        backfills=await backfills.capacities(db, backfill_ids, pool.name),
        runs=found_runs,
        has_more=has_more,
    )
