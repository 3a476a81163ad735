"""Finding DAGs, runs and tasks by the ids that commands, the API and pages get."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.queries import dag_pages, run_pages
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow, RunTaskRow
from tidegate.schemas.text import counted
from tidegate.schemas.view import DagView

NEWEST_RUN = "latest"

NAMED = 20
"""The tasks that a message names."""

Row = TypeVar("Row")


async def find_dag(db: Db, dag_id: str) -> DagRow:
    """Raises NotFoundError for an unknown DAG."""
    found = await dag_pages.list_dags(db, dag_id)
    if not found:
        broken = broken_files(await dag_pages.count_import_errors(db))
        raise NotFoundError(f"there is no DAG {dag_id!r}; `tidegate dags list` shows all{broken and f'; {broken}'}")
    return found[0]


def broken_files(number: int) -> str:
    """How many there are, and how to see them; empty without one. A new file with an error has no DAG yet."""
    if not number:
        return ""
    return f"{counted(number, 'DAG file is', 'DAG files are')} broken; `tidegate dags errors` says why"


async def find_timed_dag(db: Db, dag_id: str) -> DagView:
    """Raises RequestError for an unknown DAG, and for one without a timetable."""
    await find_dag(db, dag_id)
    dag = (await dag_pages.plans(db, dag_id)).get(dag_id)
    if dag is None:
        raise RequestError(f"DAG {dag_id!r} does not run by time; `tidegate dags show {dag_id}` shows what starts it")
    return dag


async def list_of_dag(db: Db, list_rows: Callable[..., Awaitable[list[Row]]], dag_id: str | None, **filters: Any) -> list[Row]:
    """The rows of a DAG, or of all DAGs. Raises NotFoundError for an unknown DAG."""
    rows = await list_rows(db, dag_id=dag_id, **filters)
    if not rows and dag_id is not None:
        await find_dag(db, dag_id)
    return rows


async def find_run(db: Db, dag_id: str, run_id: str) -> RunRow:
    """The run of this id, or the newest run for `latest`. Raises NotFoundError for an unknown run."""
    found = await run_pages.run_of(db, dag_id, None if run_id == NEWEST_RUN else run_id)
    if found is not None:
        return found
    await find_dag(db, dag_id)
    if run_id == NEWEST_RUN:
        raise NotFoundError(f"DAG {dag_id!r} has no runs yet")
    raise NotFoundError(f"DAG {dag_id!r} has no run {run_id!r}; `tidegate runs list {dag_id}` shows all")


async def find_task(db: Db, run: RunRow, task_id: str) -> RunTaskRow:
    """Raises NotFoundError for a task that is not part of the run, and for a run that has not started."""
    if (task := await started_task(db, run.dag_id, run.run_id, task_id)) is not None:
        return task
    raise NotFoundError(f"run {run.run_id!r} has not started yet: it has no tasks")


async def started_task(db: Db, dag_id: str, run_id: str, task_id: str) -> RunTaskRow | None:
    """None before the start of the run. Raises NotFoundError for a task that is not part of it."""
    task = await run_pages.task_of(db, dag_id, run_id, task_id)
    if task is None and (found := await run_pages.page_of_tasks(db, dag_id, run_id, limit=NAMED + 1)):
        tasks = by_label([other.row for other in found])
        raise NotFoundError(f"run {run_id!r} has no task {task_id!r}; its tasks are {names(tasks)}")
    return task


def names(tasks: Iterable[str]) -> str:
    """The first names of tasks, for a message."""
    first = list(islice(tasks, NAMED + 1))
    return ", ".join(first[:NAMED]) + (", and others" if len(first) > NAMED else "")


def by_label(tasks: Sequence[RunTaskRow]) -> Mapping[str, RunTaskRow]:
    """The tasks of a run, in their order. A task that was removed and added again is the added one: removed tasks come last."""
    found: dict[str, RunTaskRow] = {}
    for task in tasks:
        found.setdefault(task.label, task)
    return found
