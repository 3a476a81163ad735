"""How far the ends of attempts reach: what is to be read before they are taken."""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache

from tidegate.handlers.tasks.advance import Finish, retried
from tidegate.handlers.tasks.branching import passed_over
from tidegate.handlers.tasks.trigger_rules import GIVE_UP, SKIP, may_end
from tidegate.schemas.graph import Graph, Node, element_of, position_of
from tidegate.schemas.state import TaskState

AGAIN = frozenset({TaskState.NONE, TaskState.SCHEDULED})


def reach(graph: Graph, finishes: Iterable[Finish]) -> frozenset[int]:
    """The indices of all instances that taking these finishes may touch or look at."""
    touched: set[int] = set()
    followed: set[tuple[int, TaskState]] = set()
    todo: deque[tuple[int, TaskState]] = deque()
    for finish in finishes:
        touched.add(finish.index)
        if finish.state not in AGAIN and not retried(finish, graph.node(finish.index).task.retries + 1):
            todo += _ends_with(graph, finish)
    while todo:
        index, state = end = todo.popleft()
        touched.add(index)
        if end in followed:
            continue
        followed.add(end)
        downstream = graph.nodes[index].downstream
        touched.update(downstream)
        asides = _asides(graph, state)
        for position in asides.keys() & downstream if asides else ():
            also, ends = asides[position]
            touched.update(also)
            todo.extend((position, ended) for ended in ends)
    return frozenset(touched)


@lru_cache(maxsize=1000)
def _asides(graph: Graph, upstream: TaskState) -> Mapping[int, tuple[tuple[int, ...], tuple[TaskState, ...]]]:
    """Of tasks that are more than counted when one before them ends: whom they look at then, and how they may end at once."""
    asides = {}
    for position, node in enumerate(graph.nodes):
        also = node.setups if node.over is None else (*node.setups, node.over)
        ends = _ends_after(node, upstream)
        if also or ends:
            asides[position] = also, ends
    return asides


def _ends_with(graph: Graph, finish: Finish) -> list[tuple[int, TaskState]]:
    """What may end by the finish itself, and how."""
    if element_of(finish.index) is not None:
        return [(position_of(finish.index), state) for state in (TaskState.SUCCESS, TaskState.FAILED, SKIP)]
    if finish.choice is None:
        return [(finish.index, finish.state)]
    skipped = passed_over(graph, finish.index, finish.choice)
    return [(finish.index, TaskState.SUCCESS), (finish.index, TaskState.FAILED), *((index, SKIP) for index in skipped)]


def _ends_after(node: Node, upstream: TaskState) -> tuple[TaskState, ...]:
    """The states in which a task may end at once when one before it ends in `upstream`."""
    if node.over is not None:
        return (SKIP, GIVE_UP, TaskState.FAILED)
    never = (SKIP, GIVE_UP) if node.setups or may_end(node.task.trigger_rule, upstream) else ()
    return (TaskState.SUCCESS, *never) if node.instant else never
