"""Tasks that are Python functions of a DAG file, as it was in the run's version."""

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import session
from tidegate.daemon.spark.runner.blame import TaskError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.authoring import build
from tidegate.schemas.dag import FunctionTask

end = session.end


def run(job: Job, task: FunctionTask, _: Spool) -> object:
    """The function runs in this thread; it may import from the DAG folder. Returns what it returns."""
    sys.path.insert(0, job.dags_folder)
    function = find(job, task)
    return function(session.begin(job), job.spec.run)


def find(job: Job, task: FunctionTask) -> Callable[..., Any]:
    """Raises TaskError where the file no longer has it: a DAG file may build other DAGs here than where it was parsed."""
    spec = job.spec
    filename = str(Path(job.dags_folder, spec.dag_path))
    # Tracebacks show lines; the file of that name may have changed since.
    linecache.cache[filename] = (len(spec.source), None, spec.source.splitlines(keepends=True), filename)
    for dag in build(spec.source, filename):
        if dag.dag_id == spec.run.dag_id and task.task_id in dag.functions:
            return dag.functions[task.task_id]
    raise TaskError(f"{spec.dag_path} builds no DAG {spec.run.dag_id!r} with a function {task.task_id!r} on this host")
