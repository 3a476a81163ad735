"""Whether the run before allows a task to run: `depends_on_past` and `wait_for_downstream`."""

from collections.abc import Mapping

import msgspec

from tidegate.schemas.graph import Graph
from tidegate.schemas.state import TaskState

FINE = frozenset({TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED})


class Past(msgspec.Struct, frozen=True):
    """The run of the DAG before this one. `states` are its tasks' by id; None where it has not started."""

    states: Mapping[str, TaskState] | None


def allows(past: Past | None, graph: Graph, index: int) -> bool:
    """A task that was no part of the run before is treated as the first of its kind."""
    node = graph.nodes[index]
    if past is None:
        return True
    if past.states is None:
        return False
    if past.states.get(node.task.task_id, TaskState.REMOVED) is TaskState.REMOVED:
        return node.task.ignore_first_depends_on_past
    waited_for = [node.task.task_id]
    if node.task.wait_for_downstream:
        waited_for += [graph.nodes[below].task.task_id for below in node.downstream]
    return all(past.states.get(task_id, TaskState.SUCCESS) in FINE for task_id in waited_for)
