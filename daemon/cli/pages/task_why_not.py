"""`tasks why-not`: the gates of a task instance, and the smallest change that lets it run."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.explanation import changes_document, gates_document, print_changes, print_gates, waits_for
from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import index_of, load
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.queries import facts, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Terms
from tidegate.schemas.queries.run_pages import RunRow


async def read_page(db: Db, run: RunRow, label: str, settings: Settings) -> TaskExplanation:
    """Of a task, or of an instance `load[3]` of a mapped one. `settings` apply where no daemon is alive to say its own.

    Raises RequestError for a task that the run does not have.
    """
    version = (await facts.run_facts(db, run.dag_id, run.run_id)).run.version_id
    graph = (await versions.graphs(db, {version}))[version]
    index = index_of(graph, label)
    terms = Terms(settings.parallelism, settings.fair_after_s, settings.lease_ttl_s)
    known = None if index is None else await load(db, run.dag_id, run.run_id, index, terms)
    if known is None or not known.is_there:
        names = ", ".join(node.task.task_id for node in graph.nodes)
        raise RequestError(f"run {run.run_id!r} has no task {label!r}; its tasks are {names}")
    return explain_task(known)


def document(page: TaskExplanation) -> dict[str, Any]:
    """The page in JSON, with the text of reasons and changes."""
    return {**msgspec.structs.asdict(page), "gates": gates_document(page.gates), "change": changes_document(page.change)}


def print_page(page: TaskExplanation, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id} {page.task}")
    waits = waits_for(page.closed) or _nothing(page)
    output.facts((("state", page.state or "its run has not started"), ("waits for", waits)))
    print_gates(page.gates, now)
    if page.closed:
        print_changes("the smallest change that lets it run", page.change)


def _nothing(page: TaskExplanation) -> str:
    match page.state:
        case "running":
            return "nothing: it is running"
        case "success":
            return "nothing: it has succeeded"
        case _:
            return "the next decision of a daemon"
