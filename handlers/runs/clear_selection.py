"""Which tasks of a run a request clears."""

from collections.abc import Mapping

from tidegate.schemas.graph import Graph, reachable
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import TASK_FAILED, TaskState
from tidegate.schemas.view import Instance


def tasks_to_clear(graph: Graph, instances: Mapping[int, Instance], request: ClearRequested) -> list[int]:
    """The requested tasks, and the setups and teardowns around them."""
    named = {i for i, node in enumerate(graph.nodes) if not request.task_ids or node.task.task_id in request.task_ids}
    requested = set(named)
    if request.downstream:
        requested |= reachable(named, graph.downstream_of)
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
        between = reachable(node.setups, graph.downstream_of) & reachable([index], graph.upstream_of)
        if node.setups and (between & cleared or index in cleared):
            extended |= {index, *node.setups}
    return extended
