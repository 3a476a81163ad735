"""Results of tasks, as direct downstream tasks read them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidegate.schemas.error import TidegateError
from tidegate.schemas.graph import Graph, element_index, element_of
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.run import MAX_RESULTS_BYTES
from tidegate.schemas.view import TaskKey

_SQL = load("results")


class Element(NamedTuple):
    """The element that an instance of a mapped task works on, and the length that its list has now; None without a list."""

    length: int | None
    value: Any


class ResultsTooLargeError(TidegateError):
    """The instances of a mapped task returned too much together for a task that reads them."""


async def results_for(
    db: Db, instances: Sequence[tuple[int, Graph, int]]
) -> dict[TaskKey, dict[str, Any] | ResultsTooLargeError]:
    """For each instance, given as (run, graph, index), the results of its direct upstream tasks, by task id, or why not.

    The result of a mapped task is the list of the results of its instances, in the order of the elements. The instances that
    are mapped over a list do not get it: each would have all of it.
    """
    above = {(run, index): [(run, up) for up in graph.read_by(index)] for run, graph, index in instances}
    graphs = {run: graph for run, graph, _ in instances}
    keys = {key for before in above.values() for key in before}
    mapped = {key for key in keys if graphs[key[0]].nodes[key[1]].over is not None}
    large = {key: size for key, size in (await tasks.sizes_of_elements(db, mapped)).items() if size > MAX_RESULTS_BYTES}
    found = await tasks.results(db, keys - mapped) | await _lists(db, mapped - large.keys())

    def results(before: Sequence[TaskKey]) -> dict[str, Any] | ResultsTooLargeError:
        named = {graphs[run].nodes[up].task.task_id: (run, up) for run, up in before}
        for task_id, key in named.items():
            if key in large:
                return _too_large(task_id, large[key])
        return {task_id: found[key] for task_id, key in named.items() if key in found}

    return {instance: results(before) for instance, before in above.items()}


async def elements_for(db: Db, instances: Sequence[tuple[int, Graph, int]]) -> dict[TaskKey, Element]:
    """The elements of the instances of mapped tasks among these."""
    targets = [
        (run, index, over, element, element_index(over, element))
        for run, graph, index in instances
        if (element := element_of(index)) is not None and (over := graph.node(index).over) is not None
    ]
    rows = await db.fetch(_SQL["elements"], *zip(*targets, strict=True)) if targets else ()
    return {(run, index): Element(length, value) for run, index, length, value in rows}


def _too_large(task_id: str, size: int) -> ResultsTooLargeError:
    problem = f"the instances of {task_id!r} returned {size:,} bytes of JSON together, more than {MAX_RESULTS_BYTES:,}"
    return ResultsTooLargeError(f"{problem}; write the data elsewhere and return its location")


async def _lists(db: Db, mapped: set[TaskKey]) -> dict[TaskKey, list[Any]]:
    lengths = await tasks.lengths(db, mapped)
    elements = await tasks.results_of_elements(db, mapped)
    return {key: [elements[key].get(element) for element in range(length)] for key, length in lengths.items()}
