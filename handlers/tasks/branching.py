"""Branches: the tasks that the choice of a branching task skips."""

from collections.abc import Collection, Sequence

from tidegate.schemas.graph import Graph, reachable
from tidegate.schemas.run import NONE_CHOSEN


def unchosen(graph: Graph, index: int, choice: Sequence[str]) -> Collection[int]:
    """The tasks that a choice skips: the ones directly downstream that no chosen task leads to.

    An empty choice skips everything downstream except teardowns: their setups have run.
    """
    below = graph.nodes[index].downstream
    if not choice:
        return [after for after in reachable(below, graph.downstream_of) if not graph.nodes[after].setups]
    led_to = reachable((after for after in below if graph.nodes[after].task.task_id in choice), graph.downstream_of)
    return [after for after in below if after not in led_to]


def choice_error(graph: Graph, index: int, choice: Sequence[str]) -> str | None:
    """Why a choice cannot be followed; None when it can."""
    known = {NONE_CHOSEN, *(graph.nodes[after].task.task_id for after in graph.nodes[index].downstream)}
    unknown = [task_id for task_id in choice if task_id not in known]
    return f"it chose {unknown[0]!r}, which is no task directly after it" if unknown else None
