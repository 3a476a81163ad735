"""A DAG version as decisions read it: tasks by index, with their edges in both directions."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from typing import Concatenate, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from tidegate.schemas.conditions.condition import ANY_TIME, Condition, Timing, dataset_uris, inputs, inspects_details
from tidegate.schemas.dag import BaseTask, DagSpec, DeadlineSpec, EmptyTask, TaskSpec
from tidegate.schemas.notice import instance_name
from tidegate.schemas.params import Params
from tidegate.schemas.receiver import Callback
from tidegate.schemas.timetable.spec import Continuous, Timetable
from tidegate.schemas.timetable.tick import UNBOUND, Bounds

MAX_ELEMENTS = 10_000
"""The most instances of a mapped task in a run."""

MAX_TASKS = 100_000
"""The most tasks of a DAG."""

Derived = TypeVar("Derived")
Args = typing.ParamSpec("Args")

_ELEMENTS_FROM = 1 << 20
_ELEMENTS = 1 << 14
# The functions of migrations/0014_names.sql repeat both numbers.


def element_index(position: int, element: int) -> int:
    """The index of an instance of the mapped task at `position`: above the indices of tasks, which are positions."""
    return _ELEMENTS_FROM + position * _ELEMENTS + element


def is_removed(index: int) -> bool:
    """Whether the version of its run lacks the task of an instance; an earlier version of the run had it."""
    return index < 0


def position_of(index: int) -> int:
    """The position in its version of an instance's task. Raises LookupError for a removed one."""
    if is_removed(index):
        raise LookupError(f"instance {index} was removed: the version of its run lacks the task")
    return index if index < _ELEMENTS_FROM else (index - _ELEMENTS_FROM) // _ELEMENTS


def element_of(index: int) -> int | None:
    """The number of the element that an instance of a mapped task works on, from 0; None for other instances."""
    return None if index < _ELEMENTS_FROM else (index - _ELEMENTS_FROM) % _ELEMENTS


def label(task_id: str, index: int) -> str:
    """The name of an instance in its run: `load`, or `load[3]` for an element of a mapped task."""
    return instance_name(task_id, element_of(index))


def parsed_label(name: str) -> tuple[str, int | None]:
    """The task id and the number of the element in the name of an instance: `load[3]` is ("load", 3). Ids have no brackets."""
    task_id, bracket, rest = name.partition("[")
    number = rest.removesuffix("]")
    is_element = bool(bracket) and rest.endswith("]") and number.isascii() and number.isdigit()
    return (task_id, int(number)) if is_element and int(number) < MAX_ELEMENTS else (name, None)


def reachable(start: Iterable[int], neighbours: Callable[[int], Iterable[int]]) -> set[int]:
    """The nodes of `start`, and all nodes that can be reached from them."""
    found = set(start)
    todo = list(found)
    while todo:
        new = set(neighbours(todo.pop())) - found
        found |= new
        todo += new
    return found


class Node(msgspec.Struct, frozen=True):
    """A task of a version. `downstream` are indices of direct downstream tasks; `upstream_count` counts direct upstream tasks.

    `setups` are the indices of the setups of a teardown, `over` is the index of the task whose result it is mapped over.
    `decisive`: a leaf, whose end decides the state of the run. Teardowns that the run ignores do not count as downstream.
    """

    task: TaskSpec
    upstream_count: int
    downstream: tuple[int, ...]
    setups: tuple[int, ...] = ()
    decisive: bool = True
    over: int | None = None

    @property
    def ends_at_once(self) -> bool:
        """Whether the task ends when it is ready, without a submission."""
        return isinstance(self.task, EmptyTask)


class Graph(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """An immutable version of a DAG. It is compared by identity, so that values derived from it can be cached.

    `inspects_events`: the condition depends on more of an event than its dataset. `has_expiry`: pending events expire, or the
    condition has a deadline. `requires_both`: a tick makes a run only if the condition is met. `sequential`: some tasks wait
    for the previous run. `dated`: some tasks are not in all runs. `mapped`: some tasks are mapped. `dataset_uris`: the datasets
    that the condition names. `upstream`: by task, its direct upstream tasks. `has_deadlines`: runs or tasks have deadlines.
    `watched`: some tasks have deadlines or callbacks. `catchup_interval` is the least time between two late timed runs.
    """

    dag_id: str
    version_id: int
    schedule: Condition | None
    max_active_runs: int
    nodes: tuple[Node, ...]
    dataset_uris: frozenset[str] = frozenset()
    max_active_tasks: int = 16
    run_timeout_s: float | None = None
    max_failed_runs: int = 0
    fail_fast: bool = False
    allow_backfills: bool = True
    sequential: bool = False
    dated: bool = False
    mapped: bool = False
    params: Params = Params()
    timetable: Timetable | None = None
    bounds: Bounds = UNBOUND
    catchup_interval: timedelta | None = None
    timing: Timing = ANY_TIME
    one_run_per_event: bool = False
    requires_both: bool = False
    inspects_events: bool = False
    has_expiry: bool = False
    upstream: tuple[tuple[int, ...], ...] = ()
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()
    has_deadlines: bool = False
    watched: bool = False

    def downstream_of(self, index: int) -> tuple[int, ...]:
        """The direct downstream tasks of a task."""
        return self.nodes[position_of(index)].downstream

    def upstream_of(self, index: int) -> tuple[int, ...]:
        """The direct upstream tasks of a task."""
        return self.upstream[position_of(index)]

    def read_by(self, index: int) -> tuple[int, ...]:
        """The direct upstream tasks whose results an instance reads: of the list that it is mapped over it has one element."""
        over = self.node(index).over
        return tuple(up for up in self.upstream_of(index) if up != over)

    def node(self, index: int) -> Node:
        """The task of an instance. Raises LookupError for a removed one."""
        return self.nodes[position_of(index)]

    def label(self, index: int) -> str:
        """The name of an instance in its run."""
        return label(self.node(index).task.task_id, index)

    @property
    def ends_at_once(self) -> bool:
        """Whether its runs end when they start: they occupy no slots of `max_active_runs`."""
        return not self.sequential and all(node.ends_at_once for node in self.nodes)

    @property
    def is_continuous(self) -> bool:
        """Whether each timed run starts when the previous one ends. `max_active_runs` is then 1."""
        return isinstance(self.timetable, Continuous)


def per_graph(derive: Callable[Concatenate[Graph, Args], Derived]) -> Callable[Concatenate[Graph, Args], Derived]:
    """Cache a pure function of a graph with each graph: its values are freed with the graph, so they must not refer to it.

    Its other arguments are positional and have few values, which are all kept.
    """
    derived: WeakKeyDictionary[Graph, dict[tuple[object, ...], Derived]] = WeakKeyDictionary()

    @wraps(derive)
    def cached(graph: Graph, /, *args: Args.args, **kwargs: Args.kwargs) -> Derived:
        values = derived.setdefault(graph, {})
        if args not in values:
            values[args] = derive(graph, *args, **kwargs)
        return values[args]

    return cached


def bounds_of(graph: Graph, since: datetime) -> Bounds:
    """The bounds of the timed runs of a DAG that got its timetable at `since`."""
    return msgspec.structs.replace(graph.bounds, since=since)


def inspects_events(spec: DagSpec) -> bool:
    """Whether the condition of a DAG depends on more of an event than its dataset, such as its time or extra."""
    is_plain = spec.timing == ANY_TIME and spec.mode == "batch" and not spec.together
    return spec.schedule is not None and (not is_plain or inspects_details(spec.schedule))


def has_expiry(spec: DagSpec) -> bool:
    """Whether pending events expire or have a deadline: the next decision then depends on the time, too."""
    expire = spec.schedule is not None and any(leaf.expire_after_s for leaf in inputs(spec.schedule))
    return expire or spec.timing.deadline is not None


def graph_of(version_id: int, spec: DagSpec) -> Graph:
    """Index the tasks of a serialised DAG; `spec.tasks` is in topological order."""
    index = {task.task_id: position for position, task in enumerate(spec.tasks)}
    downstream: list[list[int]] = [[] for _ in spec.tasks]
    for position, task in enumerate(spec.tasks):
        for upstream in task.upstream:
            downstream[index[upstream]].append(position)
    return Graph(
        dag_id=spec.dag_id,
        version_id=version_id,
        schedule=spec.schedule,
        max_active_runs=spec.max_active_runs,
        nodes=_nodes(spec.tasks, index, downstream),
        dataset_uris=frozenset() if spec.schedule is None else dataset_uris(spec.schedule),
        max_active_tasks=spec.max_active_tasks,
        run_timeout_s=spec.run_timeout_s,
        max_failed_runs=spec.max_failed_runs,
        fail_fast=spec.fail_fast,
        allow_backfills=spec.allow_backfills,
        sequential=any(task.depends_on_past or task.wait_for_downstream for task in spec.tasks),
        upstream=tuple(tuple(index[upstream] for upstream in task.upstream) for task in spec.tasks),
        params=spec.conf_params,
        timetable=spec.timetable,
        bounds=Bounds(
            start_date=spec.start_date,
            end_date=spec.end_date,
            missed=spec.missed,
            run_immediately=spec.run_immediately,
        ),
        catchup_interval=timedelta(minutes=1) / spec.missed_per_minute if spec.missed_per_minute else None,
        timing=spec.timing,
        one_run_per_event=spec.mode == "each",
        requires_both=spec.together,
        inspects_events=inspects_events(spec),
        has_expiry=has_expiry(spec),
        mapped=any(task.over is not None for task in spec.tasks),
        dated=any(task.start_date or task.end_date for task in spec.tasks),
        callbacks=spec.callbacks,
        deadlines=spec.deadlines,
        has_deadlines=bool(spec.deadlines) or any(task.deadlines for task in spec.tasks),
        watched=any(task.callbacks or task.deadlines for task in spec.tasks),
    )


def _nodes(tasks: Sequence[TaskSpec], index: Mapping[str, int], downstream: Sequence[Sequence[int]]) -> tuple[Node, ...]:
    """The nodes, computed from the last to the first: `decisive` depends on the downstream tasks."""
    nodes: list[Node] = []
    silent: set[int] = set()
    for position in reversed(range(len(tasks))):
        task: BaseTask = tasks[position]
        below = tuple(downstream[position])
        ignored = bool(task.teardown_of) and not task.on_failure_fail_run
        if ignored:
            silent.add(position)
        decisive = not ignored and silent.issuperset(below)
        setups = tuple(index[setup] for setup in task.teardown_of)
        over = None if task.over is None else index[task.over]
        nodes.append(Node(tasks[position], len(task.upstream), below, setups, decisive, over))
    return tuple(reversed(nodes))
