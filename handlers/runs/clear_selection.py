"""Which tasks of a run a request clears."""

from collections.abc import Mapping

from tidegate.schemas.graph import Graph, Node, reachable
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import TASK_FAILED, TaskState
from tidegate.schemas.view import Instance


def tasks_to_clear(graph: Graph, instances: Mapping[int, Instance], request: ClearRequested) -> list[int]:
    """The requested tasks, and the setups and teardowns around them."""
    names = frozenset(request.task_ids)
    named = {index for index, node in enumerate(graph.nodes) if not names or node.task.task_id in names}
    requested = reachable(named, graph.downstream_of) if request.downstream else set(named)
    if request.upstream:
        requested |= reachable(named, graph.upstream_of)
    if request.only_failed:
        requested = {index for index in requested if index in instances and instances[index].state in TASK_FAILED}
    present = {index for index, instance in instances.items() if instance.state is not TaskState.REMOVED}
    return sorted(_with_setups_and_teardowns(graph, requested) & present)


def _with_setups_and_teardowns(graph: Graph, cleared: set[int]) -> set[int]:
    """The tasks, with each setup and teardown that has one of them in between."""
    extended = set(cleared)
    for index, node in enumerate(graph.nodes):
        if node.setups and (index in cleared or _between(graph, node, index) & cleared):
            extended |= {index, *node.setups}
    return extended


def _between(graph: Graph, teardown: Node, index: int) -> set[int]:
    """The setups of the teardown at `index`, the teardown, and the tasks on the paths from one to the other."""
    return reachable(teardown.setups, graph.downstream_of) & reachable([index], graph.upstream_of)
