"""The runs that wait for slots longer than their DAG's runs usually take, and why."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.daemon.read_model.terms import admission_blockers, terms_of
from tidegate.daemon.settings import Settings
from tidegate.schemas.queries import grid, leases, now
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import Usual
from tidegate.schemas.queries.leases import JobRow, Terms
from tidegate.schemas.queries.now import WaitingRun
from tidegate.schemas.view import TaskKey

LEAST, UNKNOWN = timedelta(minutes=1), timedelta(minutes=10)
"""A shorter wait is never long; without a successful run it is long after `UNKNOWN`."""

READ = 50
"""The waiting runs that are compared with what is usual."""


class StuckRun(msgspec.Struct, frozen=True):
    """A run that waits for slots. `reason` says for what; empty: for its turn in the queue."""

    run: WaitingRun
    usual: Usual | None
    reason: str


async def read_stuck(db: Db, daemons: Sequence[JobRow], settings: Settings, limit: int) -> list[StuckRun]:
    """The longest first."""
    return await _stuck(db, await now.waiting(db, LEAST.total_seconds(), READ), terms_of(daemons, settings), limit)


async def read_stuck_of(db: Db, dag_ids: Sequence[str], settings: Settings) -> Mapping[str, StuckRun]:
    """By DAG, of these: the run that waits the longest, if one waits longer than usual."""
    waiting = await now.waiting(db, LEAST.total_seconds(), now.RUNS_OF_DAG * len(dag_ids), dag_ids)
    longest = list({run.dag_id: run for run in reversed(waiting)}.values())
    found = await _stuck(db, longest, terms_of(await leases.live(db), settings), len(longest))
    return {stuck.run.dag_id: stuck for stuck in found}


async def _stuck(db: Db, waiting: Sequence[WaitingRun], terms: Terms, limit: int) -> list[StuckRun]:
    usual = await grid.usual_of(db, {run.dag_id for run in waiting})
    stuck = [run for run in waiting if waits_long(run.since, usual.get(run.dag_id), db.now)][:limit]
    reasons = await _reasons(db, stuck, terms)
    return [StuckRun(run, usual.get(run.dag_id), reasons[run.dag_run_id, run.task_index]) for run in stuck]


def waits_long(since: datetime, usual: Usual | None, now: datetime) -> bool:
    """Whether the wait of a task is longer than nine of ten whole runs of its DAG."""
    least = UNKNOWN if usual is None else max(LEAST, timedelta(seconds=usual.high_s))
    return now - since > least


async def _reasons(db: Db, stuck: Sequence[WaitingRun], terms: Terms) -> Mapping[TaskKey, str]:
    by_pool = defaultdict[str, list[TaskKey]](list)
    for run in stuck:
        by_pool[run.pool].append((run.dag_run_id, run.task_index))
    found: dict[TaskKey, str] = {}
    for pool, keys in by_pool.items():
        blockers = await admission_blockers(db, pool, keys, terms)
        found |= {key: "; ".join(reason.text for reason in blockers.get(key) or ()) for key in keys}
    return found
