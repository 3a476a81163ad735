"""A run changes to the newest version of its DAG; tasks keep their history by name."""

from collections.abc import Mapping
from datetime import datetime

from tidegate.handlers.runs.rows import demand, insert_task
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ChangeVersion
from tidegate.schemas.effect.task import SetTaskDemand
from tidegate.schemas.graph import Graph, element_index, element_of
from tidegate.schemas.view import Instance, RunView


def change_version(
    run: RunView, old: Graph, new: Graph, instances: Mapping[int, Instance], now: datetime
) -> tuple[list[Effect], dict[int, Instance]]:
    """The effects, and the tasks in the new version; changes `instances`. Tasks that the new version lacks are `removed`."""
    positions = {node.task.task_id: position for position, node in enumerate(new.nodes)}
    indices = {index: _new_index(index, positions.get(old.node(index).task.task_id)) for index in instances}
    carried: dict[int, Instance] = {}
    for before, after in indices.items():
        if after >= 0:
            instance = instances[before]
            instance.index = after
            carried[after] = instance
    added = {index: Instance(index) for index in range(len(new.nodes)) if index not in carried}
    effects: list[Effect] = [ChangeVersion(run.id, new.version_id, new.max_active_tasks, tuple(indices.items()))]
    effects += [SetTaskDemand(run.id, index, demand(new.node(index).task)) for index in carried]
    effects += [insert_task(run, instance, new.nodes[index].task, now) for index, instance in added.items()]
    return effects, carried | added


def _new_index(index: int, position: int | None) -> int:
    """The index of an instance whose task moves to `position`; negative, and still unique, where it has none."""
    if position is None:
        return -1 - index
    element = element_of(index)
    return position if element is None else element_index(position, element)
