"""A DAG version as decisions see it: tasks by index, edges both ways counted."""

import msgspec

from tidegate.schemas.dag import BaseTask, Condition, DagSpec, EmptyTask, TaskSpec


class Node(msgspec.Struct, frozen=True):
    """A task inside a version. `downstream` are indices; `upstream` is how many tasks come directly before it."""

    task: TaskSpec
    upstream: int
    downstream: tuple[int, ...]

    @property
    def instant(self) -> bool:
        """Whether it ends as soon as its turn comes, without a submission."""
        return isinstance(self.task, EmptyTask)

    @property
    def leaf(self) -> bool:
        """Whether nothing comes after it: the leaves decide the state of the run."""
        return not self.downstream


class Graph(msgspec.Struct, frozen=True, eq=False):
    """One immutable version of a DAG; compared by identity, so that what follows from it can be cached."""

    dag_id: str
    version_id: int
    schedule: Condition | None
    max_active_runs: int
    nodes: tuple[Node, ...]

    @property
    def instant(self) -> bool:
        """Whether its runs end as soon as they start, and take no room."""
        return all(node.instant for node in self.nodes)


def graph_of(version_id: int, spec: DagSpec) -> Graph:
    """Index the tasks of a serialised DAG; `spec.tasks` is in topological order."""
    index = {task.task_id: position for position, task in enumerate(spec.tasks)}
    downstream: list[list[int]] = [[] for _ in spec.tasks]
    for position, task in enumerate(spec.tasks):
        for upstream in task.upstream:
            downstream[index[upstream]].append(position)
    nodes = tuple(_node(task, tuple(below)) for task, below in zip(spec.tasks, downstream, strict=True))
    return Graph(spec.dag_id, version_id, spec.schedule, spec.max_active_runs, nodes)


def _node(task: TaskSpec, downstream: tuple[int, ...]) -> Node:
    base: BaseTask = task
    return Node(task, len(base.upstream), downstream)
