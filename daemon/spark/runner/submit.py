"""Tasks that are Spark applications: spark-submit in client mode, its driver a child of the runner."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import child, conf
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.template import render
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import SubmitTask


def end(_: Job) -> None:
    """Nothing to end: the driver runs on this host, and its executors end with it."""


def run(job: Job, task: SubmitTask, spool: Spool) -> None:
    application = find_application(Path(job.dags_folder), task.application)
    arguments = [render(argument, job.spec, f"argument {number}") for number, argument in enumerate(task.args, start=1)]
    chosen = {key: render(value, job.spec, f"conf {key!r}") for key, value in task.conf.items()}
    conf.check(chosen)
    properties = spool.work / "spark.properties"
    properties.write_text(conf.properties(settings(job, chosen, spool.work)))
    argv = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", job.spark_master, "--deploy-mode", "client"),
        *("--properties-file", str(properties), "--load-spark-defaults"),
        str(application),
        *arguments,
    ]
    child.run(argv, environment(job), spool.log, "spark-submit")


def find_application(folder: Path, application: str) -> Path:
    """Raises TaskError when the application is outside the DAG folder or missing."""
    root = folder.resolve()
    path = (root / application).resolve()
    if not path.is_relative_to(root):
        raise TaskError(f"application {application!r} is not below the DAG folder {folder}")
    if not path.is_file():
        raise TaskError(f"application {application!r} does not exist in the DAG folder {folder}")
    return path


def settings(job: Job, chosen: dict[str, str], work: Path) -> dict[str, str]:
    """The configuration: defaults, overridden by the author's, overridden by the stamp."""
    spec = job.spec
    defaults = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
    if is_local(job):
        defaults |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        defaults |= {"spark.local.dir": str(work), "spark.sql.warehouse.dir": str(work / "warehouse")}
        defaults |= {"spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={work}"'}
    stamp = {conf.STAMP: str(spec.submission_id), "spark.app.name": f"{spec.run.dag_id}.{spec.task.task_id} {spec.submission_id}"}
    return defaults | chosen | stamp


def environment(job: Job) -> dict[str, str]:
    home = str(spark_home())
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(job) else {}
    return os.environ | local | {"SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def is_local(job: Job) -> bool:
    return job.spark_master.startswith("local")


def spark_home() -> Path:
    """The folder of the installed pyspark, found without an import."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise TaskError(f"pyspark is not installed in {sys.prefix}; install tidegate[spark]")
    return Path(found.origin).parent
