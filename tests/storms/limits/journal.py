"""The journal of a storm over limits, as commits in the order in which they became visible."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

import asyncpg
import msgspec

Key = tuple[int, int]
"""Run and index: a task instance."""

Place = tuple[int, datetime, int, int]
"""Where a task stands in the queue of its pool: rank, the order of its run, the run, its index. Smaller ones come first."""


class Task(msgspec.Struct, frozen=True):
    """What the file of the DAG says of a task instance; `kind` is the type of its run."""

    key: Key
    dag_id: str
    task_id: str
    pool: str
    slots: int
    per_dag: int | None
    per_run: int | None
    run_limit: int
    kind: str


class TaskMove(msgspec.Struct, frozen=True):
    """A task instance has another state."""

    task: Task
    place: Place
    scheduled_at: datetime
    was: str | None
    state: str


class PoolChange(msgspec.Struct, frozen=True):
    """A pool after a change of its slots or of its count of admissions."""

    name: str
    slots: int
    admitted: int


class Commit(msgspec.Struct, frozen=True):
    """A transaction, `seq` in the order of commits. `looked`: what an admission saw of that order at least, at `looked_at`."""

    seq: int
    at: datetime
    looked: int | None
    looked_at: datetime | None
    tasks: Sequence[TaskMove]
    runs: Sequence[tuple[int, str]]
    pools: Sequence[PoolChange]

    @property
    def admitted(self) -> list[TaskMove]:
        return [move for move in self.tasks if move.state == "queued"]


TASKS = """
    SELECT
        task.dag_run_id, task.task_index, run.dag_id, said.task_id, said.pool, said.slots, said.per_dag, said.per_run,
        whole.max_active_tasks, run.run_type
    FROM task_instance AS task
    JOIN dag_run AS run ON run.id = task.dag_run_id
    JOIN limits_dag AS whole USING (version_id)
    JOIN limits_task AS said ON said.version_id = run.version_id
        AND said.node = CASE WHEN task.task_index < 1048576 THEN task.task_index ELSE (task.task_index - 1048576) / 16384 END
"""
TASK_MOVES = """
    SELECT xid, dag_run_id, task_index, rank, order_at, coalesce(scheduled_at, order_at), was, state FROM limits_task_move
"""
RUN_MOVES = "SELECT xid, dag_run_id, state FROM limits_run_move"
POOL_CHANGES = "SELECT xid, name, slots, admitted FROM limits_pool_change"
COMMITS = "SELECT seq, xid, at, looked, looked_at FROM limits_commit ORDER BY seq"
BEFORE_ALL = 0
"""In the place of a transaction: how the pools were when the journal began."""


async def read(db: "asyncpg.Connection[asyncpg.Record]") -> Iterator[Commit]:
    """In order; the first one has the pools that were there before, and the last one nothing: who waits has waited until now."""
    known: Mapping[Key, Task] = {(row[0], row[1]): Task((row[0], row[1]), *row[2:]) for row in await db.fetch(TASKS)}
    tasks: dict[int, list[TaskMove]] = defaultdict(list)
    for xid, run, index, rank, order_at, scheduled_at, was, state in await db.fetch(TASK_MOVES):
        tasks[xid].append(TaskMove(known[run, index], (rank, order_at, run, index), scheduled_at, was, state))
    runs: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for xid, run, state in await db.fetch(RUN_MOVES):
        runs[xid].append((run, state))
    pools: dict[int, list[PoolChange]] = defaultdict(list)
    for xid, *facts in await db.fetch(POOL_CHANGES):
        pools[xid].append(PoolChange(*facts))
    rows = await db.fetch(COMMITS)
    first = Commit(0, rows[0]["at"], None, None, (), (), pools[BEFORE_ALL])
    rest = (Commit(seq, at, looked, looked_at, tasks[xid], runs[xid], pools[xid]) for seq, xid, at, looked, looked_at in rows)
    last = Commit(rows[-1]["seq"] + 1, await db.fetchval("SELECT clock_timestamp()"), None, None, (), (), ())
    return chain([first], rest, [last])
