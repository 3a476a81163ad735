"""A run goes on with the newest version of its DAG: tasks keep their history by name."""

from collections.abc import Mapping
from datetime import datetime

from tidegate.handlers.runs.rows import demand, insert_task
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ChangeVersion
from tidegate.schemas.effect.task import PlaceTask
from tidegate.schemas.graph import Graph, element_index, element_of
from tidegate.schemas.view import Instance, RunView


def change_version(
    run: RunView, old: Graph, new: Graph, instances: Mapping[int, Instance], now: datetime
) -> tuple[list[Effect], dict[int, Instance]]:
    """How the run changes, and its tasks as they stand in the new version. Tasks that are gone are `removed`."""
    place = {node.task.task_id: index for index, node in enumerate(new.nodes)}
    indices = {index: _moved(index, place.get(old.node(index).task.task_id)) for index in instances}
    kept: dict[int, Instance] = {}
    for before, after in indices.items():
        if after >= 0:
            instance = instances[before]
            instance.index = after
            kept[after] = instance
    added = {index: Instance(index) for index in range(len(new.nodes)) if index not in kept}
    effects: list[Effect] = [ChangeVersion(run.id, new.version_id, new.max_active_tasks, tuple(indices.items()))]
    effects += [PlaceTask(run.id, index, demand(new.node(index).task)) for index in kept]
    effects += [insert_task(run, instance, new.nodes[index].task, now) for index, instance in added.items()]
    return effects, kept | added


def _moved(index: int, position: int | None) -> int:
    """Where an instance stands once its task is at `position`; out of the way when there is none."""
    if position is None:
        return -1 - index
    element = element_of(index)
    return position if element is None else element_index(position, element)
