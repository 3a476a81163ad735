"""Results of tasks, as direct downstream tasks read them."""

from collections.abc import Sequence
from typing import Any

from tidegate.schemas.graph import Graph, position_of
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import TaskKey


async def results_for(db: Db, instances: Sequence[tuple[int, Graph, int]]) -> dict[TaskKey, dict[str, Any]]:
    """For each instance, given as (run, graph, index), the results of its direct upstream tasks, by task id.

    The result of a mapped task is the list of the results of its instances, in the order of the elements.
    """
    above = {(run, index): [(run, up) for up in graph.upstream[position_of(index)]] for run, graph, index in instances}
    graphs = {run: graph for run, graph, _ in instances}
    keys = {key for before in above.values() for key in before}
    mapped = {key for key in keys if graphs[key[0]].nodes[key[1]].over is not None}
    found = await tasks.results(db, keys - mapped) | await _lists(db, mapped)
    return {
        instance: {graphs[run].nodes[up].task.task_id: found[run, up] for run, up in before if (run, up) in found}
        for instance, before in above.items()
    }


async def _lists(db: Db, mapped: set[TaskKey]) -> dict[TaskKey, list[Any]]:
    lengths = await tasks.lengths(db, mapped)
    elements = await tasks.results_of_elements(db, mapped)
    return {key: [elements[key].get(element) for element in range(length)] for key, length in lengths.items()}
