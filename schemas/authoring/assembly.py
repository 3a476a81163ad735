"""The complete spec of a DAG: its tasks in topological order, with their weights and datasets."""

import heapq
from collections.abc import Collection, Mapping

import msgspec

from tidegate.schemas.authoring.dataset import described_datasets
from tidegate.schemas.authoring.priority import weights
from tidegate.schemas.authoring.task import Task
from tidegate.schemas.dag import DagSpec, TaskSpec
from tidegate.schemas.error import DagError


def assemble_spec(where: str, dag: DagSpec, tasks_by_id: Mapping[str, Task]) -> DagSpec:
    """`dag` with its tasks. Raises DagError for a cycle; its `place` is the last line that linked two tasks of the cycle."""
    upstream = {task_id: task.upstream for task_id, task in tasks_by_id.items()}
    if cycle := find_cycle(upstream):
        links = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        place = max((upstream[below][above] for above, below in links), key=lambda place: place[1])
        raise DagError(f"{where}: its tasks form a cycle: {' >> '.join((*cycle, cycle[0]))}", place)
    tasks = [_with_upstream(tasks_by_id[task_id]) for task_id in topological_order(upstream)]
    weighted = tuple(msgspec.structs.replace(task, weight=weight) for task, weight in zip(tasks, weights(tasks), strict=True))
    datasets = described_datasets(dag.schedule, (uri for task in tasks for uri in task.outlets))
    return msgspec.structs.replace(dag, tasks=weighted, datasets=datasets)


def topological_order(upstream: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Task ids, each after its upstream and otherwise in the order of definition.

    Kahn's algorithm with a heap of the ready tasks' positions. The tasks of a cycle, and all after them, are left out.
    """
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
        first = heapq.heappop(ready)
        ordered.append(ids[first])
        for index in downstream[first]:
            missing[index] -= 1
            if not missing[index]:
                heapq.heappush(ready, index)
    return tuple(ordered)


def find_cycle(upstream: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The tasks of one cycle, each before its downstream, the first defined in front; empty without a cycle."""
    acyclic = set(topological_order(upstream))
    task = next((task_id for task_id in upstream if task_id not in acyclic), None)
    walked: dict[str, int] = {}
    while task is not None and task not in walked:
        walked[task] = len(walked)
        task = next(task_id for task_id in upstream[task] if task_id not in acyclic)
    if task is None:
        return ()
    cycle = tuple(reversed(tuple(walked)[walked[task] :]))
    first = cycle.index(next(task_id for task_id in upstream if task_id in cycle))
    return cycle[first:] + cycle[:first]


def _with_upstream(task: Task) -> TaskSpec:
    return msgspec.structs.replace(task.spec, upstream=tuple(task.upstream))
