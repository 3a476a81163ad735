"""Mapped tasks: one instance per element of the list that another task returned."""

from tidegate.handlers.tasks.trigger_rules import SKIP, Upstream
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.graph import MAX_ELEMENTS, element_index
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance

End = tuple[TaskState, str]
"""The end state of a task that has no attempt of its own, and the reason."""


_NOT_RUN = {SKIP: "was skipped", TaskState.REMOVED: "is no part of this run"}


def element_count(task: BaseTask, over: TaskState, length: int | None) -> int | End:
    """The number of instances over a list of that length, or the end of a task that gets none.

    `over` is the state of the task that returns the list; without success it has none, and the `length` does not count. A task
    that was skipped returns no list as it should, so that the mapped task is skipped, whatever its trigger rule.
    """
    if over in _NOT_RUN:
        return SKIP, f"{task.over} {_NOT_RUN[over]}: there is nothing to map over"
    if over is not TaskState.SUCCESS or length is None:
        return TaskState.FAILED, f"{task.over} returned no list to map over"
    if length > MAX_ELEMENTS:
        return TaskState.FAILED, f"{task.over} returned {length} elements, more than {MAX_ELEMENTS}"
    return length or (SKIP, f"{task.over} returned nothing to map over")


def new_instances(task: BaseTask, position: int, elements: int) -> list[Instance]:
    return [Instance(element_index(position, element), max_tries=task.retries + 1) for element in range(elements)]


def end_of_mapped(elements: Upstream) -> End | None:
    """The end of a mapped task; None while some of its instances have not ended."""
    if not elements.done:
        return None
    if elements.bad:
        return TaskState.FAILED, f"{elements.bad} of {elements.total} instances failed"
    return (TaskState.SUCCESS if elements.success else SKIP), ""
