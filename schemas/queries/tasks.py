"""Task instances: reads by run and by queue, and writes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from tidegate.schemas.effect.task import StoreResult
from tidegate.schemas.graph import element_index, element_of, position_of
from tidegate.schemas.notice import FailedTask, LogExcerpt
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Candidate, Instance, TaskKey, WaitingTask
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


async def without_elements(db: Db, dag_run_id: int) -> dict[int, Instance]:
    """The tasks of a run, by index, without the instances of its mapped tasks. Nothing is locked."""
    rows = await db.fetch(_SQL["without_elements"], dag_run_id)
    return {index: Instance(index, TaskState(state), *counts) for _, index, state, *counts in rows}


async def undone_elements(db: Db, key: TaskKey, limit: int) -> list[int]:
    """The first instances of a mapped task that have not ended."""
    (run,), (first,), (last,) = _ranges([key])
    return [row[0] for row in await db.fetch(_SQL["undone_elements"], run, first, last, sorted(TASK_ENDED), limit)]


async def first_runs(db: Db, ids: Sequence[int], instances: int) -> Sequence[int]:
    """The first of these runs, which have at most this number of task instances together unless it is one run."""
    return ids[: (await db.fetch(_SQL["first_runs"], ids, instances))[0][0]] if ids else ids


async def failures(db: Db, ids: Collection[int], limit: int) -> Mapping[int, tuple[FailedTask, ...]]:
    """The first `limit` failed tasks of each of these runs."""
    by_run: dict[int, list[FailedTask]] = defaultdict(list)
    for run, *failed in await db.fetch(_SQL["failures"], list(ids), limit) if ids else []:
        by_run[run].append(_failed(*failed))
    return {run: tuple(failed) for run, failed in by_run.items()}


async def first_failures(db: Db, ids: Collection[int]) -> Mapping[int, FailedTask]:
    """The first failed task of each of these runs that has any."""
    return {run: first for run, (first,) in (await failures(db, ids, 1)).items()}


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


async def sizes_of_elements(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, int]:
    """The bytes of JSON that the instances of these mapped tasks returned together; tasks without results are left out."""
    rows = await db.fetch(_SQL["sizes_of_elements"], *_ranges(keys)) if keys else ()
    return {(run, position_of(first)): size for run, first, size in rows}


async def results_of_elements(db: Db, keys: Collection[TaskKey]) -> dict[TaskKey, dict[int, Any]]:
    """The results of the instances of these mapped tasks, by element."""
    found: dict[TaskKey, dict[int, Any]] = {key: {} for key in keys}
    for run, index, value in await db.fetch(_SQL["results_of_elements"], *_ranges(keys)) if keys else ():
        found[run, position_of(index)][element_of(index) or 0] = value
    return found


def _ranges(keys: Collection[TaskKey]) -> Iterator[Sequence[int]]:
    """The runs of these mapped tasks, and the first and last index of an instance."""
    ranges = [(run, element_index(position, 0), element_index(position + 1, 0) - 1) for run, position in keys]
    return zip(*ranges, strict=True)


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


async def waiting(db: Db, keys: Collection[TaskKey], pool: str | None = None) -> dict[TaskKey, WaitingTask]:
    """These task instances, for the admission; with `pool` those of this pool.

    After a lock timeout, without those whose rows other sessions hold.
    """
    if not keys:
        return {}
    sql = f"{_SQL['waiting']} FOR NO KEY UPDATE OF task SKIP LOCKED" if db.skips_locked else _SQL["waiting"]
    rows = await db.fetch(sql, *zip(*keys, strict=True), pool)
    return {
        (run, index): WaitingTask(run, index, dag_id, task_id, TaskState(state), *rest)
        for run, index, dag_id, task_id, state, *rest in rows
    }


async def limited_activity(db: Db, task_ids: Collection[str]) -> list[tuple[str, int, str]]:
    """The active instances of tasks of these names that have limits of their own, as (DAG, run, task)."""
    return [(dag_id, run, task_id) for run, dag_id, task_id in await db.fetch(_SQL["limited_activity"], list(task_ids))]
