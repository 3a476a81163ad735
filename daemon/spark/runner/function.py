"""Tasks that are Python functions of a DAG file, as it was in the run's version."""

from collections.abc import Callable
from typing import Any

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import dagfile, session
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import FunctionTask

end = session.end


def run(job: Job, task: FunctionTask, _: Spool) -> object:
    """The function runs in this thread; it may import from the DAG folder. Returns what it returns."""
    function = find(job, task)
    return function(session.begin(job), job.spec.run)


def find(job: Job, task: FunctionTask) -> Callable[..., Any]:
    """Raises TaskError where the file no longer has it: a DAG file may build other DAGs here than where it was parsed."""
    dag = dagfile.load(job)
    if dag is None or task.task_id not in dag.functions:
        raise TaskError(
            f"{job.spec.dag_path} builds no DAG {job.spec.run.dag_id!r} with a function {task.task_id!r} on this host"
        )
    return dag.functions[task.task_id]
