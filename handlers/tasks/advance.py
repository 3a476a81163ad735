"""How a run advances when attempts of its tasks end: the state machine of tasks, to a fixpoint, in memory.

Cost: the direct downstream of what ended; more only where something ends at once (empty tasks, skips, upstream failures).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import heapify, heappop, heappush

import msgspec

from tidegate.handlers.tasks.branching import passed_over, wrong_choice
from tidegate.handlers.tasks.mapping import elements_of, gathered, instances_of
from tidegate.handlers.tasks.readiness import Hold, turn
from tidegate.handlers.tasks.retry_policy import delay
from tidegate.handlers.tasks.trigger_rules import RUN, SKIP
from tidegate.handlers.tasks.upstream_counts import count, upstream_of
from tidegate.schemas.graph import Graph, Node, element_of, position_of
from tidegate.schemas.state import TASK_FAILED, TaskState
from tidegate.schemas.view import Instance

Instances = Mapping[int, Instance]
Lengths = Mapping[int, int]
NO_LISTS: Lengths = {}


class Move(msgspec.Struct, frozen=True):
    """A task instance got a new state."""

    index: int
    state: TaskState
    try_number: int
    reason: str = ""


class Advance(msgspec.Struct, frozen=True):
    """What changed: the instances touched (moved or counted), the moves in order, and what it means for the run.

    `ended` is how many tasks reached an end state, `failed_leaves` how many of them decide about the run and failed. `born` are
    the instances that mapped tasks have got.
    """

    touched: tuple[Instance, ...]
    moves: tuple[Move, ...]
    ended: int
    failed_leaves: int
    born: tuple[Instance, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a task failed for good."""
        return any(move.state is TaskState.FAILED for move in self.moves)


class Finish(msgspec.Struct, frozen=True):
    """An attempt of a task ended in `state`: success, failed or skipped.

    `none` where it was cleared and waits anew; `scheduled` where it never began, and does not count as a try.

    `follow` is what a task that chooses its branches chose: ids of tasks directly after it, and all others are skipped; an empty
    choice skips everything after it, however far.
    """

    index: int
    try_number: int
    state: TaskState
    reason: str = ""
    follow: tuple[str, ...] | None = None

    @property
    def choice(self) -> tuple[str, ...] | None:
        """What is to be followed; a task that did not succeed, or one of many instances, has chosen nothing."""
        return self.follow if self.state is TaskState.SUCCESS and element_of(self.index) is None else None


def begin(graph: Graph, absent: frozenset[int] = frozenset()) -> Advance:
    """The first step of a run: every instance is new, tasks that wait for nothing get their turn.

    `absent` tasks are not a part of this run; nobody waits for them.
    """
    new = {position: _new(graph, position) for position in range(len(graph.nodes))}
    for position in absent:
        for below in graph.nodes[position].downstream:
            new[below].awaited -= 1
    step = _Step(graph, "", new)
    for position in sorted(absent):
        step.leave_out(position)
    step.settle(new)
    return step.result(every=True)


def _new(graph: Graph, position: int) -> Instance:
    node = graph.nodes[position]
    past = node.task.depends_on_past or node.task.wait_for_downstream
    return Instance(position, max_tries=node.task.retries + 1, awaited=node.upstream, waits_for_past=past)


def advance(
    graph: Graph, instances: Instances, finishes: Iterable[Finish], now: datetime, *, run: str = "", lengths: Lengths = NO_LISTS
) -> Advance:
    """Take the ends of attempts and follow them as far as they reach.

    `instances` holds at least those of `reach(graph, finishes)`; they are not changed. `run` names the run: retries of different
    runs do not come at the same time. `lengths`: how many elements the lists have that tasks returned, by index.
    """
    step = _Step(graph, run, instances, lengths)
    for finish in finishes:
        step.finish(finish, now)
    step.settle()
    return step.result(every=False)


def judge_again(graph: Graph, instances: Instances, lengths: Lengths = NO_LISTS) -> Advance:
    """Decide anew about every instance of a run whose turn has not come; `instances` are all of them, counted."""
    step = _Step(graph, "", instances, lengths)
    step.settle(index for index, instance in instances.items() if instance.state is TaskState.NONE)
    return step.result(every=False)


def retried(finish: Finish, max_tries: int) -> bool:
    """Whether another try follows, so that nothing downstream hears of it."""
    return finish.state is TaskState.FAILED and finish.try_number < max_tries


class _Step:
    """One advance under way: copies of what is touched, and whose upstream changed."""

    def __init__(self, graph: Graph, run: str, before: Instances, lengths: Lengths = NO_LISTS) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.run, self.lengths = run, lengths
        self.born: list[Instance] = []
        self.before = before
        self.touched: dict[int, Instance] = {}
        self.moves: list[Move] = []
        self.turns: list[int] = []
        self.awaits_turn: set[int] = set()
        self.failed_leaves = self.ended = 0

    def at(self, index: int) -> Instance:
        found = self.touched.get(index)
        if found is None:
            found = self.touched[index] = msgspec.structs.replace(self.before[index])
        return found

    def look(self, index: int) -> Instance:
        """As `at`, for who only looks."""
        return self.touched.get(index) or self.before[index]

    def state_of(self, index: int) -> TaskState:
        return self.look(index).state

    def move(self, instance: Instance, state: TaskState, reason: str = "") -> None:
        instance.state = state
        self.moves.append(Move(instance.index, state, instance.try_number, reason))

    def finish(self, finish: Finish, now: datetime) -> None:
        instance, node = self.at(finish.index), self.graph.node(finish.index)
        if finish.state is TaskState.NONE:
            instance.waits_for_past = node.task.depends_on_past or node.task.wait_for_downstream
            self.move(instance, TaskState.NONE, finish.reason)
        elif finish.state is TaskState.SCHEDULED:
            instance.max_tries = max(instance.max_tries, node.task.retries + 1) + 1
            self.move(instance, TaskState.SCHEDULED, finish.reason)
        elif finish.choice and (wrong := wrong_choice(self.graph, finish.index, finish.choice)):
            self.end(instance, TaskState.FAILED, wrong)
        elif retried(finish, max(instance.max_tries, node.task.retries + 1)):
            name = f"{self.graph.dag_id}/{self.run}/{self.graph.label(finish.index)}"
            instance.next_try_at = now + delay(node.task, name, finish.try_number)
            self.move(instance, TaskState.UP_FOR_RETRY, finish.reason)
            if instance.next_try_at == now:
                instance.next_try_at = None
                self.move(instance, RUN)
        else:
            self.end(instance, finish.state, finish.reason)
            if finish.choice is not None:
                for index in sorted(passed_over(self.graph, finish.index, finish.choice)):
                    self.pass_over(index, node)

    def pass_over(self, index: int, chooser: Node) -> None:
        """Skip a task on a branch that was not chosen, unless something is decided about it already."""
        instance = self.at(index)
        if instance.state is TaskState.NONE and not instance.elements:
            self.end(instance, SKIP, f"{chooser.task.task_id} did not choose it")

    def leave_out(self, index: int) -> None:
        self.move(self.at(index), TaskState.REMOVED, "the run is outside its dates")
        self.ended += 1

    def end(self, instance: Instance, state: TaskState, reason: str = "") -> None:
        self.move(instance, state, reason)
        if element_of(instance.index) is not None:
            self.tell(position_of(instance.index), state)
            return
        node = self.nodes[instance.index]
        self.ended += 1
        self.failed_leaves += node.decisive and state in TASK_FAILED
        for below in node.downstream:
            if not self.look(below).elements:  # a task that was mapped waits for its instances alone
                self.tell(below, state)

    def tell(self, waiting: int, state: TaskState) -> None:
        """One of those that an instance waits for ended."""
        count(self.at(waiting), state)
        if waiting not in self.awaits_turn:
            self.awaits_turn.add(waiting)
            heappush(self.turns, waiting)

    def settle(self, also: Iterable[int] = ()) -> None:
        """Decide in the order of the tasks: about each one once all has ended before it that ends in this step."""
        self.turns += also
        heapify(self.turns)
        while self.turns:
            turn = heappop(self.turns)
            self.awaits_turn.discard(turn)
            self.reach(turn)

    def reach(self, index: int) -> None:
        """Decide about an instance whose upstream changed; a decided one stays as it is."""
        instance, node = self.look(index), self.nodes[index]
        if instance.state is not TaskState.NONE:
            return
        match turn(node, instance, self.state_of):
            case Hold.INSTANCES:
                if end := gathered(upstream_of(instance)):
                    self.end(self.at(index), *end)
            case Hold():
                pass
            case TaskState.SCHEDULED if node.over is not None:
                self.expand(self.at(index), node, node.over)
            case TaskState.SCHEDULED if not node.instant:
                self.move(self.at(index), RUN)
            case verdict:
                self.end(self.at(index), TaskState.SUCCESS if verdict is RUN else verdict)

    def expand(self, instance: Instance, node: Node, over: int) -> None:
        """A mapped task's turn has come: it gets an instance per element of the list, once there is one, and waits for them."""
        returned = self.state_of(over)
        found = elements_of(node.task, self.lengths.get(over) if returned is TaskState.SUCCESS else None)
        if not isinstance(found, int):
            self.end(instance, *found)
            return
        instance.awaited = instance.elements = found
        instance.success = instance.failed = instance.skipped = instance.upstream_failed = 0
        self.born += (born := instances_of(node.task, instance.index, found))
        for element in born:
            self.move(element, RUN)

    def result(self, *, every: bool) -> Advance:
        touched = [self.at(index) for index in self.before] if every else self.touched.values()
        return Advance(tuple(touched), tuple(self.moves), self.ended, self.failed_leaves, tuple(self.born))
