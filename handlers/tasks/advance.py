"""The state machine of tasks: how a run advances when attempts end, to a fixpoint, in memory.

Cost: the tasks directly downstream of the ended ones; further tasks only where some end at once (empty tasks, skips, upstream
failures).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import TypedDict, Unpack

import msgspec

from tidegate.handlers.tasks.attempt_end import AttemptEnd, Produced
from tidegate.handlers.tasks.branching import choice_error, unchosen
from tidegate.handlers.tasks.mapping import element_count, end_of_mapped, new_instances
from tidegate.handlers.tasks.readiness import readiness
from tidegate.handlers.tasks.retry_policy import retry_delay
from tidegate.handlers.tasks.trigger_rules import RUN, SKIP
from tidegate.handlers.tasks.upstream_counts import count_end, upstream_of
from tidegate.schemas.explain import reasons
from tidegate.schemas.graph import Graph, Node, element_of, position_of
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.state import TASK_FAILED, TaskState
from tidegate.schemas.view import Instance

Instances = Mapping[int, Instance]
Lengths = Mapping[int, int]
"""By task, the number of elements of the list that it returned."""

NO_LENGTHS: Lengths = {}
OUTSIDE_DATES = "the logical date of the run is outside the dates of the task"


class Move(msgspec.Struct, frozen=True):
    """A task instance got a new state. `timed_out`: because its attempt ran longer than its task allows.

    `produced`: what its attempt says about its data. `log`: the end of the log of an attempt that failed.
    """

    index: int
    state: TaskState
    try_number: int
    reason: str = ""
    timed_out: bool = False
    produced: Produced | None = None
    log: LogExcerpt | None = None


class OfAttempt(TypedDict, total=False):
    """The fields of a move that come from an attempt."""

    timed_out: bool
    produced: Produced | None
    log: LogExcerpt | None


class Advance(msgspec.Struct, frozen=True):
    """The changes of a run. `changed`: instances with a new state or count; `moves`: their changes of state, in order.

    `ended` is the number of tasks that reached an end state, `failed_leaves` how many of these failed and decide the
    state of the run. `added` are new instances of mapped tasks.
    """

    changed: tuple[Instance, ...]
    moves: tuple[Move, ...]
    ended: int
    failed_leaves: int
    added: tuple[Instance, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a task failed without retries left."""
        return any(move.state is TaskState.FAILED for move in self.moves)


def begin(graph: Graph, absent: frozenset[int] = frozenset()) -> Advance:
    """The first step of a run: every instance is new, and tasks without upstream are ready.

    `absent` tasks are no part of this run; no task waits for them.
    """
    new = {position: _new_instance(node, position) for position, node in enumerate(graph.nodes)}
    for position in absent:
        for below in graph.nodes[position].downstream:
            new[below].awaited -= 1
    step = _Step(graph, "", new)
    for position in sorted(absent):
        step.remove(position)
    step.decide_all(new)
    return step.result(every=True)


def _new_instance(node: Node, position: int) -> Instance:
    waits_for_past = node.task.depends_on_past or node.task.wait_for_downstream
    return Instance(position, max_tries=node.task.retries + 1, awaited=node.upstream_count, waits_for_past=waits_for_past)


def advance(
    graph: Graph,
    instances: Instances,
    ends: Iterable[AttemptEnd],
    now: datetime,
    *,
    run: str = "",
    lengths: Lengths = NO_LENGTHS,
) -> Advance:
    """Apply the ends of attempts and their consequences, to a fixpoint.

    `instances` holds at least `affected_tasks(graph, ends)`; they are not changed. `run` is the run id, which spreads retries.
    """
    step = _Step(graph, run, instances, lengths)
    for end in ends:
        step.end_attempt(end, now)
    step.decide_all()
    return step.result(every=False)


def decide_again(graph: Graph, instances: Instances, lengths: Lengths = NO_LENGTHS) -> Advance:
    """Decide about every waiting instance of a run; `instances` are all of them, with correct counts."""
    step = _Step(graph, "", instances, lengths)
    step.decide_all(index for index, instance in instances.items() if instance.state is TaskState.NONE)
    return step.result(every=False)


class _Step:
    """One advance in progress: copies of the changed instances, and a heap of the instances to decide about."""

    def __init__(self, graph: Graph, run: str, before: Instances, lengths: Lengths = NO_LENGTHS) -> None:
        self.graph, self.nodes = graph, graph.nodes
        self.run, self.lengths = run, lengths
        self.before = before
        self.changed: dict[int, Instance] = {}
        self.added: list[Instance] = []
        self.moves: list[Move] = []
        self.undecided: list[int] = []
        self.in_heap: set[int] = set()
        self.failed_leaves = self.ended = 0

    def edit(self, index: int) -> Instance:
        """The copy of an instance that this step changes."""
        copy = self.changed.get(index)
        if copy is None:
            copy = self.changed[index] = msgspec.structs.replace(self.before[index])
        return copy

    def read(self, index: int) -> Instance:
        return self.changed.get(index) or self.before[index]

    def state_of(self, index: int) -> TaskState:
        return self.read(index).state

    def move(self, instance: Instance, state: TaskState, reason: str = "", **of_attempt: Unpack[OfAttempt]) -> None:
        instance.state, instance.reason = state, reason
        self.moves.append(Move(instance.index, state, instance.try_number, reason, **of_attempt))

    def end_attempt(self, end: AttemptEnd, now: datetime) -> None:
        instance, node = self.edit(end.index), self.graph.node(end.index)
        max_tries = max(instance.max_tries, node.task.retries + 1)
        if end.state is TaskState.NONE:
            is_element = element_of(end.index) is not None
            instance.waits_for_past = not is_element and (node.task.depends_on_past or node.task.wait_for_downstream)
            self.move(instance, TaskState.NONE, end.reason)
        elif end.state is TaskState.SCHEDULED:
            instance.max_tries = max_tries + 1
            self.move(instance, TaskState.SCHEDULED, end.reason)
        elif end.choice and (error := choice_error(self.graph, end.index, end.choice)):
            self.end(instance, TaskState.FAILED, error)
        elif end.is_retried(max_tries):
            self.retry(instance, node, end, now)
        else:
            self.end(instance, end.state, end.reason, timed_out=end.timed_out, produced=end.produced, log=end.log)
            if end.choice is not None:
                for index in sorted(unchosen(self.graph, end.index, end.choice)):
                    self.skip_unchosen(index, node)

    def retry(self, instance: Instance, node: Node, end: AttemptEnd, now: datetime) -> None:
        name = f"{self.graph.dag_id}/{self.run}/{self.graph.label(end.index)}"
        instance.next_try_at = now + retry_delay(node.task, name, end.try_number)
        self.move(instance, TaskState.UP_FOR_RETRY, end.reason, timed_out=end.timed_out, log=end.log)
        if instance.next_try_at == now:
            instance.next_try_at = None
            self.move(instance, RUN)

    def skip_unchosen(self, index: int, chooser: Node) -> None:
        """Skip a task on a branch that was not chosen, unless it is already decided about."""
        instance = self.edit(index)
        if instance.state is TaskState.NONE and not instance.elements:
            self.end(instance, SKIP, f"{chooser.task.task_id} did not choose it")

    def remove(self, index: int) -> None:
        self.move(self.edit(index), TaskState.REMOVED, OUTSIDE_DATES)
        self.ended += 1

    def end(self, instance: Instance, state: TaskState, reason: str = "", **of_attempt: Unpack[OfAttempt]) -> None:
        self.move(instance, state, reason, **of_attempt)
        if element_of(instance.index) is not None:
            self.count(position_of(instance.index), state)
            return
        node = self.nodes[instance.index]
        self.ended += 1
        self.failed_leaves += node.decisive and state in TASK_FAILED
        for below in node.downstream:
            if not self.read(below).elements:  # a mapped task with instances waits for those only
                self.count(below, state)

    def count(self, waiting: int, state: TaskState) -> None:
        """Count the end of an instance that `waiting` waits for."""
        count_end(self.edit(waiting), state)
        if waiting not in self.in_heap:
            self.in_heap.add(waiting)
            heappush(self.undecided, waiting)

    def decide_all(self, also: Iterable[int] = ()) -> None:
        """Decide in topological order: about each task once everything upstream that ends in this step has ended."""
        self.undecided += also
        heapify(self.undecided)
        while self.undecided:
            index = heappop(self.undecided)
            self.in_heap.discard(index)
            self.decide(index)

    def decide(self, index: int) -> None:
        """Decide about an instance whose upstream changed, unless it is already decided about.

        An instance of a mapped task that a user has cleared waits for nothing: the others ran without a further decision, too.
        """
        instance = self.read(index)
        if instance.state is not TaskState.NONE:
            return
        if element_of(index) is not None:
            self.move(self.edit(index), RUN)
            return
        node = self.nodes[index]
        match readiness(node, instance, self.state_of):
            case reasons.InstancesNotDone:
                if end := end_of_mapped(upstream_of(instance)):
                    self.end(self.edit(index), *end)
            case type():  # a reason to wait
                pass
            case TaskState.SCHEDULED if node.over is not None:
                self.expand(self.edit(index), node, node.over)
            case TaskState.SCHEDULED if not node.ends_at_once:
                self.move(self.edit(index), RUN)
            case decision:
                self.end(self.edit(index), TaskState.SUCCESS if decision is RUN else decision)

    def expand(self, instance: Instance, node: Node, over: int) -> None:
        """Add an instance of a ready mapped task for each element of its list. The task waits for them."""
        elements = element_count(node.task, self.state_of(over), self.lengths.get(over))
        if not isinstance(elements, int):
            self.end(instance, *elements)
            return
        instance.awaited = instance.elements = elements
        instance.success = instance.failed = instance.skipped = instance.upstream_failed = 0
        self.added += (added := new_instances(node.task, instance.index, elements))
        for element in added:
            self.move(element, RUN)

    def result(self, *, every: bool) -> Advance:
        changed = [self.edit(index) for index in self.before] if every else self.changed.values()
        return Advance(tuple(changed), tuple(self.moves), self.ended, self.failed_leaves, tuple(self.added))
