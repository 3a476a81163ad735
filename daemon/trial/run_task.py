"""One task of a run, executed here with what the run has; nothing is recorded."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner.kinds import pinned_dag
from tidegate.daemon.spark.spool import Outcome
from tidegate.daemon.trial.attempt import Attempts, own_session
from tidegate.schemas.authoring.trial import Replacements
from tidegate.schemas.dag import FunctionTask
from tidegate.schemas.error import RequestError


def run_task(settings: Settings, spec: SubmissionSpec) -> Outcome:
    """The outcome of the task, with the DAG file and the application at the version of the run. Raises RequestError."""
    folder = dags_root(settings)
    functions = _functions(folder, spec) if isinstance(spec.task, FunctionTask) else {}
    with own_session() as session, TemporaryDirectory(prefix="tidegate-test-") as scratch:
        return Attempts(settings, folder, Path(scratch), functions, {}, session, spec.modules).execute(spec.task, spec.run)


def _functions(folder: Path, spec: SubmissionSpec) -> Replacements:
    dag = pinned_dag(str(folder), spec)
    if dag is None or spec.task.task_id not in dag.functions:
        raise RequestError(f"{spec.dag_path} builds no DAG {spec.run.dag_id!r} with a task {spec.task.task_id!r} on this host")
    return dag.functions
