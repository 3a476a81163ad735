"""Tasks that are Python functions of a DAG file, at the run's version."""

from collections.abc import Callable
from typing import Any

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import dagfile, session
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import FunctionTask

end = session.end


def run(job: Job, task: FunctionTask, _: Spool) -> object:
    """Call the function in this thread; returns its result."""
    function = find(job, task)
    return function(session.begin(job), job.spec.run)


def find(job: Job, task: FunctionTask) -> Callable[..., Any]:
    """Raises TaskError if the file does not build the function here: it may depend on the host it is parsed on."""
    dag = dagfile.load(job)
    if dag is None or task.task_id not in dag.functions:
        raise TaskError(
            f"{job.spec.dag_path} builds no DAG {job.spec.run.dag_id!r} with a function {task.task_id!r} on this host"
        )
    return dag.functions[task.task_id]
