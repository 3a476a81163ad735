"""Task instances: reads by run and by queue, and writes."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET

from tidegate.schemas.effect.task import StoreResult
from tidegate.schemas.graph import element_index, element_of, position_of
from tidegate.schemas.notice import FailedTask, LogExcerpt
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Candidate, Instance, LimitOwner, StarvingTask, TaskKey, WaitingTask
from tidegate.schemas.wire.event import encode

_SQL = load("tasks")


async def instances(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, Instance]:
    """These task instances; their runs are locked."""
    if not keys:
        return {}
    rows = await db.fetch(_SQL["instances"], *zip(*keys, strict=True))
    return {(run, index): Instance(index, TaskState(state), *rest) for run, index, state, *rest in rows}


async def of_runs(db: Db, ids: Collection[int]) -> Mapping[int, dict[int, Instance]]:
    """All task instances of these locked runs, by run and index, in the order of their tasks. Runs without any are left out."""
    by_run: dict[int, dict[int, Instance]] = defaultdict(dict)
    for run, index, state, *counts in await db.fetch(_SQL["of_runs"], list(ids)) if ids else []:
        by_run[run][index] = Instance(index, TaskState(state), *counts)
    return by_run


async def failures(db: Db, ids: Collection[int], limit: int) -> Mapping[int, tuple[FailedTask, ...]]:
    """The first `limit` failed tasks of each of these runs."""
    by_run: dict[int, list[FailedTask]] = defaultdict(list)
    for run, *failed in await db.fetch(_SQL["failures"], list(ids), limit) if ids else []:
        by_run[run].append(_failed(*failed))
    return {run: tuple(failed) for run, failed in by_run.items()}


def _failed(
    task_id: str, index: int, try_number: int, reason: str, host: str | None, path: str | None, tail: str | None
) -> FailedTask:
    element = element_of(index)
    return FailedTask(
        task_id=task_id,
        map_index=UNSET if element is None else element,
        try_number=try_number,
        reason=reason,
        log=UNSET if path is None else LogExcerpt(host=host or "", path=path, tail=tail or ""),
    )


async def states(db: Db, ids: Collection[int]) -> Mapping[int, Mapping[str, TaskState]]:
    """The states of the tasks of these runs, by run and task id; runs that have not started are left out."""
    by_run: dict[int, dict[str, TaskState]] = defaultdict(dict)
    for run, task_id, state in await db.fetch(_SQL["states"], list(ids)):
        by_run[run][task_id] = TaskState(state)
    return by_run


def result_columns(effects: Sequence[StoreResult]) -> Sequence[Sequence[Any]]:
    runs, indices, values = columns(effects)
    return runs, indices, [encode(value).decode() for value in values]


async def results(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, Any]:
    """The results of these task instances; instances without one are left out."""
    return {(row[0], row[1]): row[2] for row in await db.fetch(_SQL["results"], *zip(*keys, strict=True))} if keys else {}


async def lengths(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, int]:
    """The lengths of the lists that these task instances returned; other results are left out."""
    rows = await db.fetch(_SQL["lengths"], *zip(*keys, strict=True)) if keys else []
    return {(run, index): length for run, index, length in rows if length is not None}


async def results_of_elements(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, dict[int, Any]]:
    """The results of the instances of these mapped tasks, by element."""
    found: dict[TaskKey, dict[int, Any]] = {key: {} for key in keys}
    ranges = [(run, element_index(position, 0), element_index(position + 1, 0) - 1) for run, position in keys]
    for run, index, value in await db.fetch(_SQL["results_of_elements"], *zip(*ranges, strict=True)) if keys else ():
        found[run, position_of(index)][element_of(index) or 0] = value
    return found


async def ready(db: Db, pool: str, wanted: int, slots: int) -> list[Candidate]:
    """Up to `wanted` task instances in queue order that seem admissible with `slots` free slots.

    Nothing is locked; the handler checks again. If limits block the first tasks of the queue, later ones are returned.
    """
    rows = await db.fetch(_SQL["ready"], pool, wanted, slots)
    found = [Candidate(run, index, limited_in) for run, index, is_open, limited_in in rows if is_open]
    if len(rows) == wanted > len(found):
        behind = [(row[0], row[1]) for row in await db.fetch(_SQL["ready_behind"], pool, wanted, slots)]
        seen = await waiting(db, behind)
        return [
            Candidate(*key, task.dag_id if task.per_dag or task.backfill_id else None)
            for key in behind
            if (task := seen.get(key))
        ]
    return found


async def longest_waiting(db: Db, pool: str, since: datetime, wanted: int, slots: int) -> list[StarvingTask]:
    """Up to `wanted` task instances that have waited since before `since`, oldest first, each for at most `slots` slots.

    Each is blocked by missing slots only; together they may exceed their limits.
    """
    rows = await db.fetch(_SQL["longest_waiting"], pool, since, wanted, slots)
    return [StarvingTask(Candidate(*row[:3]), _limits_left(row[0], *row[3:])) for row in rows]


def _limits_left(
    dag_run_id: int,
    dag_id: str,
    task_id: str,
    of_run: int,
    in_run: int | None,
    in_dag: int | None,
    backfill_id: int | None,
    of_backfill: int | None,
) -> Mapping[LimitOwner, int]:
    limits: Mapping[LimitOwner, int | None] = {
        (dag_run_id, ""): of_run,
        (dag_run_id, task_id): in_run,
        (dag_id, task_id): in_dag,
        (f"backfill {backfill_id}", ""): of_backfill,
    }
    return {owner: left for owner, left in limits.items() if left is not None}


async def waiting(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, WaitingTask]:
    """These task instances, for the admission."""
    if not keys:
        return {}
    rows = await db.fetch(_SQL["waiting"], *zip(*keys, strict=True))
    return {
        (run, index): WaitingTask(run, index, dag_id, task_id, TaskState(state), *rest)
        for run, index, dag_id, task_id, state, *rest in rows
    }


async def limited_activity(db: Db, task_ids: Collection[str]) -> list[tuple[str, int, str]]:
    """The active instances of tasks of these names that have limits of their own, as (DAG, run, task)."""
    return [(dag_id, run, task_id) for run, dag_id, task_id in await db.fetch(_SQL["limited_activity"], list(task_ids))]
