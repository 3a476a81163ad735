"""The tasks of a DAG as a graph: groups stand for their tasks where these are too many."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tidegate.daemon.read_model.lookup import find_dag
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import grid, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import GridRun
from tidegate.schemas.state import TaskState, TaskStateName

MOST = 500
"""The most nodes of a graph."""


BY_WEIGHT = (
    *(TaskState.FAILED, TaskState.UPSTREAM_FAILED, TaskState.UP_FOR_RETRY, TaskState.RUNNING, TaskState.QUEUED),
    *(TaskState.SCHEDULED, TaskState.NONE, TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED),
)
"""What failed is to be seen first, then what goes on, then what has not begun: a group is a success once all of it has ended."""

NO_STATES: Mapping[str, str] = {}


class GraphNode(msgspec.Struct, frozen=True):
    """A task, or a group. `tasks` is the number of tasks in it. `state` is that of the task, or of the group, in the last run."""

    name: str
    is_group: bool
    tasks: int
    state: TaskStateName | None = None


class TaskGraph(msgspec.Struct, frozen=True):
    """Nodes in the order of the DAG, and edges from upstream to downstream. `left_out` nodes beyond `MOST` are not shown.

    `run` is the last run of the DAG.
    """

    nodes: Sequence[GraphNode]
    edges: Sequence[tuple[str, str]]
    left_out: int
    run: GridRun | None


async def read_graph(db: Db, dag_id: str, group: str = "") -> TaskGraph:
    """The graph of a DAG, or of one of its groups. Raises NotFoundError for an unknown one."""
    await find_dag(db, dag_id)
    tasks = (await versions.current_spec(db, dag_id)).tasks
    if group and not any(is_within(task, group) for task in tasks):
        raise NotFoundError(f"DAG {dag_id!r} has no group {group!r} of tasks")
    runs = await grid.runs_before(db, dag_id, None, 1)
    cells = await grid.cells(db, [run.id for run in runs], [task.task_id for task in tasks if is_within(task, group)])
    states = {task_id: cell.state for of_run in cells.values() for task_id, cell in of_run.items()}
    return msgspec.structs.replace(graph_of(tasks, group, states=states), run=runs[0] if runs else None)


def group_state(states: Collection[str]) -> str | None:
    """The state of a group by those of its tasks; None if none of them has one."""
    return next((state for state in BY_WEIGHT if state in states), None)


def graph_of(tasks: Sequence[BaseTask], group: str = "", most: int = MOST, states: Mapping[str, str] = NO_STATES) -> TaskGraph:
    """The graph of the tasks within a group, or of all, with their `states`.

    More than `most` tasks are collapsed to the groups directly below it.
    """
    within = [task for task in tasks if is_within(task, group)]
    names = {task.task_id: task.task_id for task in within}
    if len(within) > most:
        names = {task.task_id: group_below(task, group) or task.task_id for task in within}
    sizes = Counter(names.values())
    shown = list(sizes)[:most]
    found: dict[str, set[str]] = defaultdict(set)
    for task_id, name in names.items():
        found[name].update({states[task_id]} if task_id in states else ())
    return TaskGraph(
        nodes=[GraphNode(name, is_group=name not in names, tasks=sizes[name], state=group_state(found[name])) for name in shown],
        edges=_edges(within, names, frozenset(shown)),
        left_out=len(sizes) - len(shown),
        run=None,
    )


def is_within(task: BaseTask, group: str) -> bool:
    return not group or task.group == group or task.group.startswith(f"{group}.")


def group_below(task: BaseTask, group: str) -> str:
    """The group directly below `group` that the task is in; empty for a task of `group` itself."""
    rest = task.group.removeprefix(group).lstrip(".")
    name = rest.partition(".")[0]
    return f"{group}.{name}" if group and name else name


def _edges(tasks: Sequence[BaseTask], names: Mapping[str, str], shown: frozenset[str]) -> list[tuple[str, str]]:
    """Each edge between two nodes once."""
    found = {(names[upstream], names[task.task_id]): None for task in tasks for upstream in task.upstream if upstream in names}
    return [edge for edge in found if edge[0] != edge[1] and shown.issuperset(edge)]
