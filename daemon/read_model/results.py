"""The value that a task returned."""

from typing import Any

from tidegate.daemon.read_model.lookup import find_task
from tidegate.handlers.explain.task_facts import index_of
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.queries import tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.facts import run_facts
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import TaskState


async def read_result(db: Db, run: RunRow, task_id: str) -> Any:
    """The value that a successful task returned. Raises RequestError where there is none."""
    task = await find_task(db, run, task_id)
    if task.state != TaskState.SUCCESS:
        raise RequestError(f"task {task_id!r} of run {run.run_id!r} has not succeeded: it is {task.state}")
    value = await result_of(db, run, task_id)
    if value is None:
        raise NotFoundError(f"task {task_id!r} of run {run.run_id!r} has no result: it returned nothing, or its log says why")
    return value


async def result_of(db: Db, run: RunRow, label: str) -> Any:
    """The value of a task or of an instance `load[3]` of a mapped one; None where there is none.

    The value of a mapped task is the list of its instances' values.
    """
    found = (await run_facts(db, run.dag_id, run.run_id)).view
    graph = (await versions.graphs(db, {found.version_id}))[found.version_id]
    index = index_of(graph, label)
    if index is None:
        return None
    key = (found.id, index)
    if index < len(graph.nodes) and graph.nodes[index].over is not None:
        elements = (await tasks.results_of_elements(db, [key]))[key]
        return [elements.get(element) for element in range((await tasks.lengths(db, [key])).get(key, 0))]
    return (await tasks.results(db, [key])).get(key)
