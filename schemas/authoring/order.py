"""The order of a DAG's tasks: every task after its upstream, otherwise as the author defined them."""

import heapq
from collections.abc import Collection, Mapping

from tidegate.schemas.authoring.consumer import check_consumer
from tidegate.schemas.dag import BaseTask, DagSpec, EmptyTask
from tidegate.schemas.error import DagError
from tidegate.schemas.graph import MAX_TASKS
from tidegate.schemas.timetable.spec import Timetable, validate


def topological(upstream: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Task ids in order, given each one's upstream; the tasks of a cycle, and all after them, are left out."""
    ids = tuple(upstream)
    position = {task_id: index for index, task_id in enumerate(ids)}
    missing = [len(above) for above in upstream.values()]
    downstream: list[list[int]] = [[] for _ in ids]
    for index, above in enumerate(upstream.values()):
        for task_id in above:
            downstream[position[task_id]].append(index)

    ready = [index for index, count in enumerate(missing) if not count]
    ordered = []
    while ready:
        done = heapq.heappop(ready)
        ordered.append(ids[done])
        for index in downstream[done]:
            missing[index] -= 1
            if not missing[index]:
                heapq.heappush(ready, index)
    return tuple(ordered)


def cycle(upstream: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The tasks of one cycle, each before its downstream and the one defined first in front; empty where there is none."""
    outside = set(topological(upstream))
    tangled = next((task_id for task_id in upstream if task_id not in outside), None)
    walked: dict[str, int] = {}
    while tangled is not None and tangled not in walked:
        walked[tangled] = len(walked)
        tangled = next(task_id for task_id in upstream[tangled] if task_id not in outside)
    if tangled is None:
        return ()
    path = tuple(reversed(tuple(walked)[walked[tangled] :]))
    first = path.index(next(task_id for task_id in upstream if task_id in path))
    return path[first:] + path[:first]


def verify(spec: DagSpec) -> None:
    """Check what the shape alone does not say. Raises DagError."""
    where = f"DAG {spec.dag_id!r}"
    if len(spec.tasks) > MAX_TASKS:
        raise DagError(f"{where} has {len(spec.tasks)} tasks; at most {MAX_TASKS} are possible: make several DAGs of it")
    seen: set[str] = set()
    for task in spec.tasks:
        if task.task_id in seen:
            raise DagError(f"{where}: task_id {task.task_id!r} is used twice")
        _verify_upstream(f"{where}, task {task.task_id!r}", task, seen)
        seen.add(task.task_id)
    if spec.timetable is not None:
        _verify_timetable(where, spec.timetable)
    check_consumer(where, spec)


def _verify_upstream(where: str, task: BaseTask, before: Collection[str]) -> None:
    for task_id in task.upstream:
        if task_id not in before:
            raise DagError(f"{where}: no task {task_id!r} comes before it")
    if task.over is not None and task.over not in task.upstream:
        raise DagError(f"{where}: it is mapped over {task.over!r}, which does not come directly before it")
    if task.over is not None and isinstance(task, EmptyTask):
        raise DagError(f"{where}: an empty task does nothing with an element and cannot be mapped")
    if stray := set(task.teardown_of) - set(task.upstream):
        raise DagError(f"{where}: its setup {min(stray)!r} does not come directly before it")


def _verify_timetable(where: str, timetable: Timetable) -> None:
    try:
        validate(timetable)
    except ValueError as error:
        raise DagError(f"{where}: {error}") from error
