"""Upstream counts: how many of the instances that a task waits for have ended, by end state."""

from collections.abc import Iterable, Mapping

from tidegate.handlers.tasks.trigger_rules import Upstream
from tidegate.schemas.graph import Graph, element_of, position_of
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance


def upstream_of(instance: Instance) -> Upstream:
    """The counts of an instance, for trigger rules."""
    return Upstream(instance.awaited, instance.success, instance.failed, instance.skipped, instance.upstream_failed)


def count_end(instance: Instance, state: TaskState) -> None:
    """Count that an instance upstream has ended in `state`."""
    match state:
        case TaskState.SUCCESS:
            instance.success += 1
        case TaskState.FAILED:
            instance.failed += 1
        case TaskState.SKIPPED:
            instance.skipped += 1
        case _:
            instance.upstream_failed += 1


def recount(graph: Graph, instances: Mapping[int, Instance], index: int) -> None:
    """Recompute the counts of an instance. A mapped task that has its instances counts those, and is left as it is."""
    instance = instances[index]
    if not instance.elements:
        counts = count_states(instances[above].state for above in graph.upstream[index])
        instance.awaited, instance.success, instance.failed = counts.total, counts.success, counts.failed
        instance.skipped, instance.upstream_failed = counts.skipped, counts.upstream_failed


def recount_elements(instances: Mapping[int, Instance], position: int) -> None:
    """Recompute the counts of a mapped task from its instances."""
    own = (it.state for index, it in instances.items() if element_of(index) is not None and position_of(index) == position)
    instance, counts = instances[position], count_states(own)
    instance.success, instance.failed = counts.success, counts.failed
    instance.skipped, instance.upstream_failed = counts.skipped, counts.upstream_failed


def count_states(states: Iterable[TaskState]) -> Upstream:
    """The counts over these states; `removed` tasks are no part of the run and are left out."""
    counter = Instance(-1)
    for state in states:
        if state is not TaskState.REMOVED:
            counter.awaited += 1
            if state in TASK_ENDED:
                count_end(counter, state)
    return upstream_of(counter)
