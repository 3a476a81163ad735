"""A run changes to the newest version of its DAG; tasks keep their history by name."""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from itertools import count

from tidegate.handlers.runs.of_version import absent_tasks, times_out_at
from tidegate.handlers.runs.task_effects import demand, insert_task
from tidegate.handlers.tasks.advance import OUTSIDE_DATES
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ChangeVersion
from tidegate.schemas.effect.task import SetTaskDemand
from tidegate.schemas.graph import Graph, element_index, element_of, is_removed
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, RunView


def change_version(
    run: RunView, old: Graph, new: Graph, instances: Mapping[int, Instance], now: datetime
) -> tuple[list[Effect], dict[int, Instance]]:
    """The effects, and the tasks in the new version; changes `instances`. What the new version lacks is `removed`."""
    indices = _new_indices(old, new, instances)
    carried: dict[int, Instance] = {}
    for before, after in indices.items():
        if not is_removed(after):
            instance = instances[before]
            instance.index = after
            carried[after] = instance
    added = _added(run, new, carried)
    effects: list[Effect] = [
        ChangeVersion(run.id, new.version_id, new.max_active_tasks, tuple(indices.items()), _timeout(run, new))
    ]
    effects += [SetTaskDemand(run.id, index, demand(run, new.node(index).task)) for index in carried]
    effects += [insert_task(run, instance, new.nodes[index].task, now) for index, instance in added.items()]
    return effects, carried | added


def _added(run: RunView, new: Graph, carried: Container[int]) -> dict[int, Instance]:
    """The tasks that only the new version has. One that is no part of this run is removed at once."""
    added = {index: Instance(index) for index in range(len(new.nodes)) if index not in carried}
    for index in absent_tasks(new, run).intersection(added):
        added[index].state, added[index].reason = TaskState.REMOVED, OUTSIDE_DATES
    return added


def _timeout(run: RunView, new: Graph) -> datetime | None:
    """A queued run gets its timeout when it starts."""
    return times_out_at(new, run.start_date) if run.state is RunState.RUNNING and run.start_date else None


def _new_indices(old: Graph, new: Graph, present: Iterable[int]) -> dict[int, int]:
    """By index of an instance, its index in the new version; -1, -2, … for the removed ones."""
    positions = {node.task.task_id: position for position, node in enumerate(new.nodes)}
    removed = count(-1, -1)
    indices: dict[int, int] = {}
    for index in present:
        after = _new_index(new, index, positions.get(old.node(index).task.task_id))
        indices[index] = next(removed) if after is None else after
    return indices


def _new_index(new: Graph, index: int, position: int | None) -> int | None:
    """The index of an instance whose task moves to `position`; None if it is removed, as is an element of no mapped task."""
    element = element_of(index)
    if position is None or element is None:
        return position
    return None if new.nodes[position].over is None else element_index(position, element)
