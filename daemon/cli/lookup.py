"""DAGs and runs by what a user typed."""

from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import dag_pages, run_pages
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow, RunTaskRow

LATEST = "latest"


async def find_dag(db: Db, dag_id: str) -> DagRow:
    """Raises RequestError when there is none of this id."""
    found = await dag_pages.list_dags(db, dag_id)
    if not found:
        raise RequestError(f"there is no DAG {dag_id!r}; `tidegate dags list` shows those there are")
    return found[0]


async def find_run(db: Db, dag_id: str, run_id: str) -> RunRow:
    """The run of this id, or the newest one for `latest`. Raises RequestError when there is none."""
    found = await run_pages.list_runs(db, dag_id=dag_id, run_id=None if run_id == LATEST else run_id, limit=1)
    if found:
        return found[0]
    await find_dag(db, dag_id)
    if run_id == LATEST:
        raise RequestError(f"DAG {dag_id!r} has no runs yet")
    raise RequestError(f"DAG {dag_id!r} has no run {run_id!r}; `tidegate runs list {dag_id}` shows those there are")


async def find_task(db: Db, run: RunRow, task_id: str) -> RunTaskRow:
    """Raises RequestError for a task that the run does not have, or not yet."""
    tasks = {task.task_id: task for task in await run_pages.tasks_of(db, run.dag_id, run.run_id)}
    if not tasks:
        raise RequestError(f"run {run.run_id!r} has not started yet: it has no tasks")
    if task_id not in tasks:
        raise RequestError(f"run {run.run_id!r} has no task {task_id!r}; its tasks are {', '.join(tasks)}")
    return tasks[task_id]
