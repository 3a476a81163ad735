"""Functions of a DAG file that receive notifications. Their return value is ignored."""

from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import dagfile
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Spool


def end(_: Job) -> None:
    """Nothing to end: it runs in this process only."""


def run(job: Job, task: CallbackTask, _: Spool) -> None:
    dag = dagfile.load(job)
    if dag is None or task.task_id not in dag.callback_functions:
        raise TaskError(
            f"{job.spec.dag_path} builds no DAG {job.spec.run.dag_id!r} with a callback {task.task_id!r} on this host"
        )
    dag.callback_functions[task.task_id](task.context)
