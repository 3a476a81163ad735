"""Which tasks of a run a request clears."""

from collections.abc import Iterator, Mapping

from tidegate.schemas.graph import Graph, Node, element_index, element_of, is_removed, parsed_label, position_of, reachable
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import TASK_FAILED, TaskState
from tidegate.schemas.view import Instance


def tasks_to_clear(graph: Graph, instances: Mapping[int, Instance], request: ClearRequested) -> list[int]:
    """The requested tasks and instances of mapped tasks, and the setups and teardowns around them.

    A mapped task that is cleared, or comes directly after a cleared task, is cleared with all of its instances.
    """
    names = frozenset(request.task_ids)
    named = {index for index, node in enumerate(graph.nodes) if not names or node.task.task_id in names}
    elements = set(named_elements(graph, request)) & instances.keys()
    positions = {position_of(element) for element in elements}
    requested = set(named)
    if request.downstream:
        requested = reachable(named, graph.downstream_of) | (reachable(positions, graph.downstream_of) - (positions - named))
    if request.upstream:
        requested |= reachable(named, graph.upstream_of) | (reachable(positions, graph.upstream_of) - (positions - named))
    requested |= elements
    if request.only_failed:
        requested = {index for index in requested if index in instances and instances[index].state in TASK_FAILED}
    present = {index for index, instance in instances.items() if instance.state is not TaskState.REMOVED}
    return sorted(_whole(graph, _with_setups_and_teardowns(graph, requested)) & present)


def named_elements(graph: Graph, request: ClearRequested) -> Iterator[int]:
    """The indices of the instances that a request names, such as `load[3]`."""
    positions = {node.task.task_id: index for index, node in enumerate(graph.nodes) if node.over is not None}
    for task_id, element in map(parsed_label, request.task_ids):
        if element is not None and task_id in positions:
            yield element_index(positions[task_id], element)


def has_instance(graph: Graph, instances: Mapping[int, Instance], name: str) -> bool:
    """Whether a run has the instance of a mapped task with this name."""
    there = (index for index, it in instances.items() if not is_removed(index) and it.state is not TaskState.REMOVED)
    return any(element_of(index) is not None and graph.label(index) == name for index in there)


def _with_setups_and_teardowns(graph: Graph, cleared: set[int]) -> set[int]:
    """The tasks, with each setup and teardown that has one of them in between."""
    extended = set(cleared)
    tasks = {position_of(index) for index in cleared}
    for index, node in enumerate(graph.nodes):
        if node.setups and (index in tasks or _between(graph, node, index) & tasks):
            extended |= {index, *node.setups}
    return extended


def _whole(graph: Graph, cleared: set[int]) -> set[int]:
    """Without the instances of mapped tasks that are cleared as a whole, or that come directly after a cleared task."""
    tasks = {index for index in cleared if element_of(index) is None}
    positions = {position_of(index) for index in cleared - tasks}
    whole = tasks | {position for position in positions if not tasks.isdisjoint(graph.upstream_of(position))}
    return whole | {index for index in cleared - tasks if position_of(index) not in whole}


def _between(graph: Graph, teardown: Node, index: int) -> set[int]:
    """The setups of the teardown at `index`, the teardown, and the tasks on the paths from one to the other."""
    return reachable(teardown.setups, graph.downstream_of) & reachable([index], graph.upstream_of)
