"""Why the tasks in the queue of a pool do not have their slots yet, by the functions that admit."""

from collections.abc import Mapping

from tidegate.handlers.admission.capacity import AdmissionState, Capacity
from tidegate.handlers.admission.select import select_tasks
from tidegate.schemas.explain.reasons import AdmissionBlocker
from tidegate.schemas.view import TaskKey


def queue_blockers(state: AdmissionState) -> Mapping[TaskKey, tuple[AdmissionBlocker, ...] | None]:
    """By task of the queue, what blocks it beside the tasks that the next admission admits; None for one of these."""
    capacity = Capacity(state)
    admitted = {task.key for task in select_tasks(capacity)}
    return {task.key: None if task.key in admitted else capacity.blockers(task) for task in state.waiting}
