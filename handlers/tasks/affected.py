"""The instances that the ends of attempts may affect: a handler reads them before it calls `advance`."""

from collections import deque
from collections.abc import Iterable, Mapping

from tidegate.handlers.tasks.attempt_end import AttemptEnd
from tidegate.handlers.tasks.branching import unchosen
from tidegate.handlers.tasks.readiness import may_rule_out
from tidegate.handlers.tasks.trigger_rules import GIVE_UP, SKIP
from tidegate.schemas.graph import Graph, Node, element_of, per_graph, position_of
from tidegate.schemas.state import TaskState

STAYS_UNFINISHED = frozenset({TaskState.NONE, TaskState.SCHEDULED})


def affected_tasks(graph: Graph, ends: Iterable[AttemptEnd]) -> frozenset[int]:
    """The indices of all instances that `advance` may read or change for these ends."""
    affected: set[int] = set()
    followed: set[tuple[int, TaskState]] = set()
    todo: deque[tuple[int, TaskState]] = deque()
    for end in ends:
        affected.add(end.index)
        if end.state not in STAYS_UNFINISHED and not end.is_retried(graph.node(end.index).task.retries + 1):
            todo += _possible_ends(graph, end)
    while todo:
        index, state = task_end = todo.popleft()
        affected.add(index)
        if task_end in followed:
            continue
        followed.add(task_end)
        downstream = graph.nodes[index].downstream
        affected.update(downstream)
        consequences = _consequences(graph, state)
        for position in consequences.keys() & downstream if consequences else ():
            read, states = consequences[position]
            affected.update(read)
            todo.extend((position, ended) for ended in states)
    return frozenset(affected)


@per_graph
def _consequences(graph: Graph, upstream: TaskState) -> Mapping[int, tuple[tuple[int, ...], tuple[TaskState, ...]]]:
    """By index, the tasks that do more than count an upstream end: the tasks they read, and the states in which they may end."""
    consequences = {}
    for position, node in enumerate(graph.nodes):
        read = node.setups if node.over is None else (*node.setups, node.over)
        states = _ends_after(node, upstream)
        if read or states:
            consequences[position] = read, states
    return consequences


def _possible_ends(graph: Graph, end: AttemptEnd) -> list[tuple[int, TaskState]]:
    """The tasks that an attempt's end may end directly, with their states."""
    if element_of(end.index) is not None:
        return [(position_of(end.index), state) for state in (TaskState.SUCCESS, TaskState.FAILED, SKIP)]
    if end.choice is None:
        return [(end.index, end.state)]
    skipped = unchosen(graph, end.index, end.choice)
    return [(end.index, TaskState.SUCCESS), (end.index, TaskState.FAILED), *((index, SKIP) for index in skipped)]


def _ends_after(node: Node, upstream: TaskState) -> tuple[TaskState, ...]:
    """The states in which a task may end at once when a task upstream ends in `upstream`."""
    if node.over is not None:
        return (SKIP, GIVE_UP, TaskState.FAILED)
    not_run = (SKIP, GIVE_UP) if node.setups or may_rule_out(node.task.trigger_rule, upstream) else ()
    return (TaskState.SUCCESS, *not_run) if node.ends_at_once else not_run
