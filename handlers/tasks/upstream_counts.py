"""How many of those that an instance waits for ended, and how."""

from collections.abc import Iterable, Mapping

from tidegate.handlers.tasks.trigger_rules import Upstream
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance


def upstream_of(instance: Instance) -> Upstream:
    """What a trigger rule goes by."""
    return Upstream(instance.awaited, instance.success, instance.failed, instance.skipped, instance.upstream_failed)


def count(instance: Instance, state: TaskState) -> None:
    """One of those it waits for ended."""
    match state:
        case TaskState.SUCCESS:
            instance.success += 1
        case TaskState.FAILED:
            instance.failed += 1
        case TaskState.SKIPPED:
            instance.skipped += 1
        case _:
            instance.upstream_failed += 1


def count_anew(graph: Graph, instances: Mapping[int, Instance], index: int) -> None:
    """Let an instance count again what it waits for; one that waits for its own elements knows them."""
    instance = instances[index]
    if not instance.elements:
        found = tally(instances[above].state for above in graph.above[index])
        instance.awaited, instance.success, instance.failed = found.total, found.success, found.failed
        instance.skipped, instance.upstream_failed = found.skipped, found.upstream_failed


def tally(states: Iterable[TaskState]) -> Upstream:
    """How many of these instances ended in which state; those that are not a part of the run are left out."""
    counter = Instance(-1)
    for state in states:
        if state is not TaskState.REMOVED:
            counter.awaited += 1
            if state in TASK_ENDED:
                count(counter, state)
    return upstream_of(counter)
