"""How a run advances when attempts of its tasks end: the state machine of tasks, to a fixpoint, in memory.

Cost: the direct downstream of what ended; more only where something ends at once (empty tasks, upstream failures).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from tidegate.schemas.graph import Graph, Node
from tidegate.schemas.state import RunState, TaskState


class Instance(msgspec.Struct):
    """A task instance. `upstream_success` and `upstream_failed` count the direct upstream tasks that ended so.

    `upstream_failed` also counts those that could not run because of a failure before them.
    """

    index: int
    state: TaskState = TaskState.NONE
    try_number: int = 0
    upstream_success: int = 0
    upstream_failed: int = 0
    next_try_at: datetime | None = None


class Move(msgspec.Struct, frozen=True):
    """A task instance got a new state."""

    index: int
    state: TaskState
    try_number: int
    reason: str = ""


class Advance(msgspec.Struct, frozen=True):
    """What changed: the instances touched (moved or counted), the moves in order, and what it means for the run.

    `ended` is how many tasks reached an end state, `failed_leaves` how many of them were leaves and did not succeed.
    """

    touched: tuple[Instance, ...]
    moves: tuple[Move, ...]
    ended: int
    failed_leaves: int


class Finish(msgspec.Struct, frozen=True):
    """An attempt of a task ended."""

    index: int
    try_number: int
    succeeded: bool
    reason: str = ""


def begin(graph: Graph) -> Advance:
    """The first step of a run: every instance is new, tasks without upstream get their turn."""
    step = _Step(graph, {position: Instance(position) for position in range(len(graph.nodes))})
    for position, node in enumerate(graph.nodes):
        if not node.upstream:
            step.reach(position)
    step.settle()
    return step.result(every=True)


def advance(graph: Graph, instances: Mapping[int, Instance], finishes: Iterable[Finish], now: datetime) -> Advance:
    """Take the ends of attempts and follow them as far as they reach.

    `instances` holds at least those of `reach(graph, finishes)`; they are not changed.
    """
    step = _Step(graph, instances)
    for finish in finishes:
        step.finish(finish, now)
    step.settle()
    return step.result(every=False)


def reach(graph: Graph, finishes: Iterable[Finish]) -> frozenset[int]:
    """The indices of all instances that taking these finishes may touch."""
    ends = [finish for finish in finishes if not retried(graph, finish)]
    touched = {finish.index for finish in finishes}
    followed: set[tuple[int, bool]] = set()
    todo = deque((finish.index, finish.succeeded) for finish in ends)
    while todo:
        index, succeeded = end = todo.popleft()
        if end in followed:
            continue
        followed.add(end)
        below = graph.nodes[index].downstream
        touched.update(below)
        todo.extend((position, succeeded) for position in below if not succeeded or graph.nodes[position].instant)
    return frozenset(touched)


def retried(graph: Graph, finish: Finish) -> bool:
    """Whether another try follows, so that nothing downstream hears of it."""
    return not finish.succeeded and finish.try_number <= graph.nodes[finish.index].task.retries


class _Step:
    """One advance under way: copies of what is touched, and the ends not yet passed on."""

    def __init__(self, graph: Graph, before: Mapping[int, Instance]) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.before = before
        self.touched: dict[int, Instance] = {}
        self.moves: list[Move] = []
        self.ends: deque[int] = deque()
        self.failed_leaves = 0
        self.ended = 0

    def at(self, index: int) -> Instance:
        found = self.touched.get(index)
        if found is None:
            found = self.touched[index] = msgspec.structs.replace(self.before[index])
        return found

    def move(self, instance: Instance, state: TaskState, reason: str = "") -> None:
        instance.state = state
        self.moves.append(Move(instance.index, state, instance.try_number, reason))

    def finish(self, finish: Finish, now: datetime) -> None:
        instance = self.at(finish.index)
        if retried(self.graph, finish):
            instance.next_try_at = now + timedelta(seconds=self.nodes[finish.index].task.retry_delay_s)
            self.move(instance, TaskState.UP_FOR_RETRY, finish.reason)
        else:
            self.end(instance, TaskState.SUCCESS if finish.succeeded else TaskState.FAILED, finish.reason)

    def end(self, instance: Instance, state: TaskState, reason: str = "") -> None:
        self.move(instance, state, reason)
        self.ends.append(instance.index)
        self.ended += 1
        self.failed_leaves += self.nodes[instance.index].leaf and state is not TaskState.SUCCESS

    def settle(self) -> None:
        while self.ends:
            index = self.ends.popleft()
            succeeded = self.touched[index].state is TaskState.SUCCESS
            for below in self.nodes[index].downstream:
                instance = self.at(below)
                if succeeded:
                    instance.upstream_success += 1
                else:
                    instance.upstream_failed += 1
                self.reach(below)

    def reach(self, index: int) -> None:
        """Decide about an instance whose upstream changed; a decided one stays as it is."""
        instance, node = self.at(index), self.nodes[index]
        if instance.state is not TaskState.NONE:
            return
        match all_success(node, instance):
            case TaskState.UPSTREAM_FAILED:
                self.end(instance, TaskState.UPSTREAM_FAILED)
            case TaskState.SCHEDULED if node.instant:
                self.end(instance, TaskState.SUCCESS)
            case TaskState.SCHEDULED:
                self.move(instance, TaskState.SCHEDULED)
            case _:
                pass

    def result(self, *, every: bool) -> Advance:
        touched = [self.at(index) for index in self.before] if every else self.touched.values()
        return Advance(tuple(touched), tuple(self.moves), self.ended, self.failed_leaves)


def all_success(node: Node, instance: Instance) -> TaskState:
    """The trigger rule: run when all upstream tasks succeeded, give up as soon as one did not, else wait (`none`)."""
    if instance.upstream_failed:
        return TaskState.UPSTREAM_FAILED
    if instance.upstream_success == node.upstream:
        return TaskState.SCHEDULED
    return TaskState.NONE


def run_state(unfinished: int, failed_leaves: int) -> RunState:
    """The state of a started run: its leaves decide, once nothing is unfinished."""
    if unfinished:
        return RunState.RUNNING
    return RunState.FAILED if failed_leaves else RunState.SUCCESS
