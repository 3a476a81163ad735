"""Mapped tasks: how many instances one gets, and what their ends mean for it."""

from tidegate.handlers.tasks.trigger_rules import SKIP, Upstream
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.graph import MAX_ELEMENTS, element_index
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance

End = tuple[TaskState, str]
"""How a task ends without an attempt, and why."""


def elements_of(task: BaseTask, length: int | None) -> int | End:
    """How many instances a task gets that is mapped over a list so long, or how it ends for want of one; None: over no list."""
    if length is None:
        return TaskState.FAILED, f"{task.over} returned no list to map over"
    if length > MAX_ELEMENTS:
        return TaskState.FAILED, f"{task.over} returned {length} elements, more than {MAX_ELEMENTS}"
    return length or (SKIP, f"{task.over} returned nothing to map over")


def instances_of(task: BaseTask, position: int, elements: int) -> list[Instance]:
    """One for each element."""
    return [Instance(element_index(position, element), max_tries=task.retries + 1) for element in range(elements)]


def gathered(elements: Upstream) -> End | None:
    """How a mapped task ends once all its instances have."""
    if not elements.done:
        return None
    if elements.bad:
        return TaskState.FAILED, f"{elements.bad} of {elements.total} instances failed"
    return (TaskState.SUCCESS if elements.success else SKIP), ""
