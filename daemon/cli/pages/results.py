"""`tasks result`: the value that a task returned."""

from typing import Any

from tidegate.schemas.graph import Graph, element_index
from tidegate.schemas.queries import tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.facts import run_facts
from tidegate.schemas.queries.run_pages import RunRow


async def result_of(db: Db, run: RunRow, label: str) -> Any:
    """The value of a task or of an instance `load[3]` of a mapped one; None where there is none.

    The value of a mapped task is the list of its instances' values.
    """
    found = (await run_facts(db, run.dag_id, run.run_id)).run
    graph = (await versions.graphs(db, {found.version_id}))[found.version_id]
    index = _index(graph, label)
    key = (found.id, index)
    if index < len(graph.nodes) and graph.nodes[index].over is not None:
        elements = (await tasks.results_of_elements(db, [key]))[key]
        return [elements.get(element) for element in range((await tasks.lengths(db, [key])).get(key, 0))]
    return (await tasks.results(db, [key])).get(key)


def _index(graph: Graph, label: str) -> int:
    task_id, _, element = label.removesuffix("]").partition("[")
    position = next(position for position, node in enumerate(graph.nodes) if node.task.task_id == task_id)
    return element_index(position, int(element)) if element else position
