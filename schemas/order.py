"""The order of a DAG's tasks: every task after its upstream, otherwise as the author defined them."""

import heapq
from collections.abc import Collection, Mapping

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.dataset import MAX_NESTING, nesting
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable import Timetable, validate


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
    seen: set[str] = set()
    for task in spec.tasks:
        if task.task_id in seen:
            raise DagError(f"DAG {spec.dag_id!r}: task_id {task.task_id!r} is used twice")
        for task_id in task.upstream:
            if task_id not in seen:
                raise DagError(f"DAG {spec.dag_id!r}, task {task.task_id!r}: no task {task_id!r} comes before it")
        if stray := set(task.teardown_of) - set(task.upstream):
            raise DagError(f"DAG {spec.dag_id!r}, task {task.task_id!r}: its setup {min(stray)!r} does not come before it")
        seen.add(task.task_id)
    if spec.timetable is not None:
        _verify_timetable(spec.dag_id, spec.timetable)
    if spec.schedule is not None and nesting(spec.schedule) > MAX_NESTING:
        raise DagError(f"DAG {spec.dag_id!r}: its schedule is nested deeper than {MAX_NESTING} levels")


def _verify_timetable(dag_id: str, timetable: Timetable) -> None:
    try:
        validate(timetable)
    except ValueError as error:
        raise DagError(f"DAG {dag_id!r}: {error}") from error
