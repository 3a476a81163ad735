"""Why something does not run, read for a command."""

from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import index_of, load
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.queries import progress, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Terms
from tidegate.schemas.queries.run_pages import RunRow


async def read_chain(db: Db, run: RunRow, label: str, settings: Settings) -> TaskExplanation:
    """Of a task, or of an instance `load[3]` of a mapped one. `settings` are taken for the daemons' where none is alive.

    Raises RequestError for a task that the run does not have.
    """
    version = (await progress.run_facts(db, run.dag_id, run.run_id)).run.version_id
    graph = (await versions.graphs(db, {version}))[version]
    index = index_of(graph, label)
    terms = Terms(settings.parallelism, settings.fair_after_s, settings.lease_ttl_s)
    found = None if index is None else await load(db, run.dag_id, run.run_id, index, terms)
    if found is None or not found.is_there:
        names = ", ".join(node.task.task_id for node in graph.nodes)
        raise RequestError(f"run {run.run_id!r} has no task {label!r}; its tasks are {names}")
    return explain_task(found)
