"""A DAG version as decisions see it: tasks by index, edges both ways counted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.schemas.conditions.condition import ANY_TIME, Condition, Timing, inputs, inspects_details
from tidegate.schemas.dag import BaseTask, DagSpec, EmptyTask, ParamSpec, TaskSpec
from tidegate.schemas.receiver import Callback, DeadlineSpec
from tidegate.schemas.timetable.spec import Continuous, Timetable
from tidegate.schemas.timetable.tick import UNBOUND, Bounds

MAX_ELEMENTS = 10_000
"""How many instances a mapped task may have in a run."""

MAX_TASKS = 100_000
"""How many tasks a DAG may have."""

_ELEMENTS_FROM = 1 << 20
_ELEMENTS = 1 << 14


def element_index(position: int, element: int) -> int:
    """The task index of an instance of the mapped task at `position`: above those of tasks, which are positions."""
    return _ELEMENTS_FROM + position * _ELEMENTS + element


def position_of(index: int) -> int:
    """The place in the version of the task that an instance belongs to."""
    return index if index < _ELEMENTS_FROM else (index - _ELEMENTS_FROM) // _ELEMENTS


def element_of(index: int) -> int | None:
    """Which element of a mapped task an instance is for; None for all other instances."""
    return None if index < _ELEMENTS_FROM else (index - _ELEMENTS_FROM) % _ELEMENTS


def label(task_id: str, index: int) -> str:
    """The name of an instance in its run: `load`, or `load[3]` for an element of a mapped task."""
    element = element_of(index)
    return task_id if element is None else f"{task_id}[{element}]"


def reachable(start: Iterable[int], neighbours: Callable[[int], Iterable[int]]) -> set[int]:
    """The nodes of `start`, and all that are reached from them."""
    found = set(start)
    todo = list(found)
    while todo:
        new = set(neighbours(todo.pop())) - found
        found |= new
        todo += new
    return found


class Node(msgspec.Struct, frozen=True):
    """A task inside a version. `downstream` are indices; `upstream` is how many tasks come directly before it.

    `setups` are the indices of those whose teardown it is, `over` is the index of the task whose result it is mapped over.
    `decisive`: its end decides about the run, because nothing comes after it that does.
    """

    task: TaskSpec
    upstream: int
    downstream: tuple[int, ...]
    setups: tuple[int, ...] = ()
    decisive: bool = True
    over: int | None = None

    @property
    def instant(self) -> bool:
        """Whether it ends as soon as its turn comes, without a submission."""
        return isinstance(self.task, EmptyTask)


class Graph(msgspec.Struct, frozen=True, eq=False):
    """One immutable version of a DAG; compared by identity, so that what follows from it can be cached.

    `inspects_events`: its condition depends on more of an event than its dataset. `has_expiry`: pending events expire, or the
    condition has a deadline. `requires_both`: a tick makes a run only if the condition holds.
    `sequential`: some of its tasks wait for the run before theirs. `dated`: some are no part of all its runs. `mapped`: some
    are mapped over what others return.
    `above`: by task, the tasks directly before it. `has_deadlines`: its runs have some, or their tasks. `watched`: some of its
    tasks have deadlines or callbacks. `catchup_interval` is the least time between two late timed runs.
    """

    dag_id: str
    version_id: int
    schedule: Condition | None
    max_active_runs: int
    nodes: tuple[Node, ...]
    max_active_tasks: int = 16
    run_timeout_s: float | None = None
    max_failed_runs: int = 0
    fail_fast: bool = False
    sequential: bool = False
    dated: bool = False
    mapped: bool = False
    params: Mapping[str, ParamSpec] = {}
    timetable: Timetable | None = None
    bounds: Bounds = UNBOUND
    catchup_interval: timedelta | None = None
    timing: Timing = ANY_TIME
    one_run_per_event: bool = False
    requires_both: bool = False
    inspects_events: bool = False
    has_expiry: bool = False
    above: tuple[tuple[int, ...], ...] = ()
    callbacks: tuple[Callback, ...] = ()
    deadlines: tuple[DeadlineSpec, ...] = ()
    has_deadlines: bool = False
    watched: bool = False

    def downstream_of(self, index: int) -> tuple[int, ...]:
        """The tasks directly after one."""
        return self.nodes[index].downstream

    def upstream_of(self, index: int) -> tuple[int, ...]:
        """The tasks directly before one."""
        return self.above[index]

    def node(self, index: int) -> Node:
        """The task of an instance."""
        return self.nodes[position_of(index)]

    def label(self, index: int) -> str:
        """The name of an instance in its run."""
        return label(self.node(index).task.task_id, index)

    @property
    def instant(self) -> bool:
        """Whether its runs end as soon as they start, and take no room."""
        return not self.sequential and all(node.instant for node in self.nodes)

    @property
    def is_continuous(self) -> bool:
        """Whether its timed runs follow each other's ends. Then `max_active_runs` is 1, and cannot be more."""
        return isinstance(self.timetable, Continuous)


def bounds_of(graph: Graph, since: datetime) -> Bounds:
    """What limits the timed runs of a DAG that has had its timetable since then."""
    return msgspec.structs.replace(graph.bounds, since=since)


def inspects_events(spec: DagSpec) -> bool:
    """Whether the condition of a DAG depends on more of an event than its dataset."""
    is_plain = spec.timing == ANY_TIME and spec.mode == "batch" and not spec.together
    return spec.schedule is not None and (not is_plain or inspects_details(spec.schedule))


def has_expiry(spec: DagSpec) -> bool:
    """Whether pending events expire or have a deadline: then time alone changes what becomes of them."""
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
        max_active_tasks=spec.max_active_tasks,
        run_timeout_s=spec.run_timeout_s,
        max_failed_runs=spec.max_failed_runs,
        fail_fast=spec.fail_fast,
        sequential=any(task.depends_on_past or task.wait_for_downstream for task in spec.tasks),
        above=tuple(tuple(index[upstream] for upstream in task.upstream) for task in spec.tasks),
        params=spec.params,
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
    """From the last to the first: whether a task is decisive depends on what comes after it."""
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
