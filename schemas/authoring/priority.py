"""What each task weighs in the queue of its pool."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidegate.schemas.dag import BaseTask, WeightRule

LEAST, MOST = -(2**31), 2**31 - 1


def weights(tasks: Sequence[BaseTask]) -> tuple[int, ...]:
    """By the weight rule of each of these tasks, which are in topological order; cut to 32 bits.

    A rule that looks downstream or upstream counts every task there once, by however many ways it is reached. Sets of tasks are
    bits of integers, so that a DAG of 10,000 tasks takes part of a second.
    """
    index = {task.task_id: position for position, task in enumerate(tasks)}
    above = _closure([[index[task_id] for task_id in task.upstream] for task in tasks], range(len(tasks)))
    below = _closure(_reversed(tasks, index), reversed(range(len(tasks))))
    total = _sum_of(tasks)
    return tuple(min(max(_weight(task, total, above[n], below[n]), LEAST), MOST) for n, task in enumerate(tasks))


def _weight(task: BaseTask, total: Callable[[int], int], above: int, below: int) -> int:
    match task.weight_rule:
        case WeightRule.DOWNSTREAM:
            return task.priority_weight + total(below)
        case WeightRule.UPSTREAM:
            return task.priority_weight + total(above)
        case WeightRule.ABSOLUTE:
            return task.priority_weight


def _closure(neighbours: Sequence[Sequence[int]], order: Iterable[int]) -> list[int]:
    """For each task the set of all that can be reached from it; `order` has every task after its neighbours."""
    reached = [0] * len(neighbours)
    for position in order:
        for neighbour in neighbours[position]:
            reached[position] |= reached[neighbour] | 1 << neighbour
    return reached


def _reversed(tasks: Sequence[BaseTask], index: Mapping[str, int]) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in tasks]
    for position, task in enumerate(tasks):
        for task_id in task.upstream:
            below[index[task_id]].append(position)
    return below


def _sum_of(tasks: Sequence[BaseTask]) -> Callable[[int], int]:
    """What the tasks of a set weigh together: there are few different weights."""
    masks: dict[int, int] = {}
    for position, task in enumerate(tasks):
        masks[task.priority_weight] = masks.get(task.priority_weight, 0) | 1 << position
    return lambda found: sum(weight * (found & mask).bit_count() for weight, mask in masks.items())
