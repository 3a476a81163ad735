"""Whether the previous run allows a task to run: `depends_on_past` and `wait_for_downstream`."""

from tidegate.schemas.graph import Graph
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import PreviousRun

PERMITTING = frozenset({TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED})


def blocking_tasks(previous: PreviousRun | None, graph: Graph, index: int) -> tuple[str, ...]:
    """The tasks of the previous run that block a task; the task itself if that run has not started.

    A task that the previous run lacks also blocks itself, unless it has `ignore_first_depends_on_past`.
    """
    task = graph.nodes[index].task
    if previous is None:
        return ()
    if previous.states is None:
        return (task.task_id,)
    if previous.states.get(task.task_id, TaskState.REMOVED) is TaskState.REMOVED:
        return () if task.ignore_first_depends_on_past else (task.task_id,)
    awaited = [task.task_id]
    if task.wait_for_downstream:
        awaited += [graph.nodes[below].task.task_id for below in graph.nodes[index].downstream]
    return tuple(task_id for task_id in awaited if previous.states.get(task_id, TaskState.SUCCESS) not in PERMITTING)
