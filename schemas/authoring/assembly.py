"""A DAG as a whole, made of what was said of it and of its tasks."""

from collections.abc import Mapping

import msgspec

from tidegate.schemas.authoring.dataset import described
from tidegate.schemas.authoring.order import cycle, topological
from tidegate.schemas.authoring.priority import weights
from tidegate.schemas.authoring.task import Task
from tidegate.schemas.dag import DagSpec, TaskSpec
from tidegate.schemas.error import DagError


def assembled(where: str, head: DagSpec, tasks_by_id: Mapping[str, Task]) -> DagSpec:
    """The tasks in topological order, with their weights. Raises DagError for a cycle, with the line that closes it."""
    upstream = {task_id: task.upstream for task_id, task in tasks_by_id.items()}
    if path := cycle(upstream):
        links = zip(path, (*path[1:], path[0]), strict=True)
        place = max((upstream[below][above] for above, below in links), key=lambda place: place[1])
        raise DagError(f"{where}: its tasks form a cycle: {' >> '.join((*path, path[0]))}", place)
    tasks = [_linked(tasks_by_id[task_id]) for task_id in topological(upstream)]
    weighed = zip(tasks, weights(tasks), strict=True)
    said = described(head.schedule, (uri for task in tasks for uri in task.outlets))
    whole = tuple(msgspec.structs.replace(task, weight=weight) for task, weight in weighed)
    return msgspec.structs.replace(head, tasks=whole, datasets=said)


def _linked(task: Task) -> TaskSpec:
    return msgspec.structs.replace(task.spec, upstream=tuple(task.upstream))
