"""Branches: which tasks are skipped because the task before them chose others."""

from collections import deque
from collections.abc import Collection, Sequence

from tidegate.schemas.graph import Graph


def passed_over(graph: Graph, index: int, follow: Sequence[str]) -> Collection[int]:
    """The tasks that the choice of a task skips: those directly after it that no chosen one leads to.

    An empty choice skips everything after it, however far, but no teardown: what was set up is to be torn down.
    """
    below = graph.nodes[index].downstream
    if not follow:
        return [after for after in _descendants(graph, below) if not graph.nodes[after].setups]
    led_to = _descendants(graph, [after for after in below if graph.nodes[after].task.task_id in follow])
    return [after for after in below if after not in led_to]


def wrong_choice(graph: Graph, index: int, follow: Sequence[str]) -> str | None:
    """Why the choice of a task cannot be followed; None when it can."""
    below = {graph.nodes[after].task.task_id for after in graph.nodes[index].downstream}
    wrong = [task_id for task_id in follow if task_id not in below]
    return f"it chose {wrong[0]!r}, which is no task directly after it" if wrong else None


def _descendants(graph: Graph, start: Sequence[int]) -> set[int]:
    """These tasks and everything after them."""
    found = set(start)
    todo = deque(start)
    while todo:
        for index in graph.nodes[todo.popleft()].downstream:
            if index not in found:
                found.add(index)
                todo.append(index)
    return found
