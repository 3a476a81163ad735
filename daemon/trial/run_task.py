"""One task of a run, executed here with what the run has; nothing is recorded."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.kinds import pinned_dag
from tidegate.daemon.spark.runner.own_session import own_session
from tidegate.daemon.spark.spool import Outcome
from tidegate.daemon.trial.attempt import Attempts
from tidegate.schemas.cluster import cluster_name, cluster_problem
from tidegate.schemas.error import RequestError


def run_task(settings: Settings, spec: SubmissionSpec) -> Outcome:
    """The outcome of the task, with the DAG file, the modules and the application at the version of the run, on its cluster.

    Raises RequestError for what is wrong with this host.
    """
    folder, settings = _folder(settings), _on_cluster(settings, spec)

    def function(task_id: str) -> Callable[..., Any]:
        dag = pinned_dag(str(folder), spec)
        if dag is None or task_id not in dag.functions:
            raise TaskError(f"{spec.dag_path} builds no DAG {spec.run.dag_id!r} with a task {task_id!r} on this host")
        return dag.functions[task_id]

    with own_session(settings.spark_remote) as session, TemporaryDirectory(prefix="tidegate-test-") as scratch:
        return Attempts(settings, folder, Path(scratch), function, {}, session, spec.modules).execute(spec.task, spec.run)


def _folder(settings: Settings) -> Path:
    folder = dags_root(settings)
    if not folder.is_dir():
        raise RequestError(f"the DAG folder {folder} does not exist; set TIDEGATE_DAGS_FOLDER")
    return folder


def _on_cluster(settings: Settings, spec: SubmissionSpec) -> Settings:
    """The settings with the addresses of the cluster that the task names."""
    if (problem := cluster_problem(spec.task, settings.clusters)) is not None:
        raise RequestError(f"{problem} (on host {settings.host})")
    cluster = settings.clusters.get(cluster_name(spec.task))
    if cluster is None:
        return settings
    return msgspec.structs.replace(settings, spark_master=cluster.master, spark_remote=cluster.remote)
