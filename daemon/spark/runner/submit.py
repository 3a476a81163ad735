"""Tasks that are Spark applications: spark-submit in client mode, its driver a child of the runner."""

import logging
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

from tidegate.daemon.spark.runner import (
    application_files,
    child,
    environment,
    pinned_application,
    spark_server,
    stamped_application,
    yarn_rest,
)
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.rendering import render
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SubmitTask

log = logging.getLogger("tidegate")

STAMP = "spark.tidegate.submission_id"

MASTER_S = 30.0
"""How long a master of a standalone cluster may be away, such as for a restart."""

EARLIER_S = 60.0
"""How long a cluster may take to end the application of an earlier try."""

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options of `spark-submit`. As system properties, settings of Spark count where no file and no task sets them."""

WAREHOUSE, OF_HIVE = "spark.sql.warehouse.dir", "hive.metastore.warehouse.dir"

TABLES = "warehouse"
NAMED_TABLES = 10

_RESERVED = re.compile(r"spark\.(master|submit\.deployMode|app\.(name|id)|tidegate\..*)", re.IGNORECASE)
# These settings escape Spark: foreign code in the JVM, other users, other pods.
_DENIED = re.compile(
    r"""spark\.((driver|executor)\.(extraJavaOptions|defaultJavaOptions|extraClassPath|extraLibraryPath)
    | jars\.ivySettings | proxy.?user | kubernetes\.(.*\.)?podTemplateFile)""",
    re.IGNORECASE | re.VERBOSE,
)
_ESCAPED = str.maketrans({"\\": "\\\\", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!", " ": "\\ ", "\t": "\\t"})


def run(execution: Execution, task: SubmitTask) -> None:
    job, spool = execution.job, execution.spool
    application = _application(job, task, spool.work)
    arguments = [render(argument, job.spec, f"argument {number}") for number, argument in enumerate(task.args, start=1)]
    chosen = _chosen(execution, task)
    check_conf(chosen)
    env = environment.of(execution, task) | for_spark(job, task.python)
    if job.spec.earlier and (problem := _end(execution, job.spec.earlier, chosen, env, EARLIER_S)):
        raise TaskError(f"an earlier try has not ended: {problem}")
    spark_server.await_master(job, MASTER_S)
    # A file, because every user of the machine can read the arguments of a process.
    conf = spool.work / "spark.properties"
    conf.write_text(properties(settings(job, chosen, env)))
    argv = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", job.spark_master, "--deploy-mode", "client"),
        *("--properties-file", str(conf), "--load-spark-defaults"),
        *application_files.options(job, task, spool.work),
        str(application),
        *arguments,
    ]
    try:
        child.run(argv, env | {OPTIONS: java_options(job, chosen, spool.work, env)}, execution, _named(job, env, chosen))
    finally:
        conf.unlink(missing_ok=True)  # it may contain secrets
        _name_tables(spool.work)


def _named(job: Job, env: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """The program for reasons, with its cluster: of YARN, whose master has no address, that of its configuration."""
    if is_local(job):
        return "spark-submit"
    places = yarn_rest.addresses(env, chosen) if stamped_application.is_on_yarn(job) else ()
    return f"spark-submit on {spark_server.master(job)}" + (f" at {', '.join(places)}" if places else "")


def end(execution: Execution, task: SubmitTask, within_s: float) -> str:
    """End the application on its cluster, from any process, with the environment and the settings of the task.

    Why it may go on there; empty once its end is confirmed. Raises TaskError.
    """
    env = environment.of(execution, task) | for_spark(execution.job, task.python)
    return _end(execution, (execution.job.spec.submission_id,), _chosen(execution, task), env, within_s)


def _end(
    execution: Execution, submissions: Iterable[UUID], chosen: Mapping[str, str], env: Mapping[str, str], within_s: float
) -> str:
    job = execution.job
    if not stamped_application.is_stamped(job):
        return ""
    conf = execution.spool.work / stamped_application.PROPERTIES
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.touch(mode=0o600)
    conf.write_text(properties(chosen))
    try:
        return stamped_application.Ending(job, submissions, env, chosen).problem(conf, within_s)
    finally:
        conf.unlink(missing_ok=True)


def _chosen(execution: Execution, task: SubmitTask) -> dict[str, str]:
    """The settings of the author."""
    return {key: environment.text(execution, value, f"conf {key!r}") for key, value in task.conf.items()}


def _name_tables(work: Path) -> None:
    """Log the first tables that go with the attempt."""
    for table in sorted((work / TABLES).glob("*"))[:NAMED_TABLES]:
        log.warning("the table %s is deleted with the attempt: %s is not set", table.name, WAREHOUSE)


def _application(job: Job, task: SubmitTask, work: Path) -> Path:
    """The application of the run's version, else that of the DAG folder. Raises TaskError for one that is not there.

    Two applications may have the same content, and other files beside them.
    """
    for module in job.spec.modules:
        if (module.path, module.digest) == (task.application_path, task.application_digest):
            return pinned_application.place(module, Path(job.dags_folder), work / "application")
    return application_files.below(Path(job.dags_folder), task.application, "application")


def settings(job: Job, chosen: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """The configuration that `spark-defaults.conf` cannot change: the author's, and the stamps, which override it.

    The tags of YARN are those of the author, else of the operator, and the stamp.
    """
    spec, defaults = job.spec, Path(_spark_conf_dir(env))
    tags = chosen.get(stamped_application.TAGS) or stamped_application.default_of(stamped_application.TAGS, defaults)
    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if is_local(job) else {}
    stamp = {STAMP: str(spec.submission_id), "spark.app.name": f"{spec.run.dag_id}.{spec.task.task_id} {spec.submission_id}"}
    return {**local, **chosen, **stamp, **stamped_application.stamps(job, tags)}


def java_options(job: Job, chosen: Mapping[str, str], work: Path, env: Mapping[str, str]) -> str:
    """The defaults, before the options that are there. Other users can read them."""
    defaults = {"spark.ui.enabled": "false", "spark.log.level": "WARN"}
    if is_local(job):
        defaults |= _local_defaults(chosen, work, env)
    return " ".join([*(f'"-D{name}={value}"' for name, value in defaults.items()), env.get(OPTIONS, "")]).strip()


def _local_defaults(chosen: Mapping[str, str], work: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Spark leaves nothing in the DAG folder. The catalog of Hive is not there longer than the tables, and not shorter."""
    defaults = dict.fromkeys(("java.io.tmpdir", "spark.local.dir"), str(work))
    has_hive_site = _is_named(OF_HIVE, "hive-site.xml", env)
    if not has_hive_site:  # the default of Spark would override it
        defaults[WAREHOUSE] = str(work / TABLES)
    if not (has_hive_site or WAREHOUSE in chosen or _is_named(WAREHOUSE, "spark-defaults.conf", env)):
        defaults["derby.system.home"] = str(work)
    return defaults


def _is_named(setting: str, file: str, env: Mapping[str, str]) -> bool:
    """Whether the file has the setting, in a folder where Spark looks for it."""
    folders = _spark_conf_dir(env), env.get("HADOOP_CONF_DIR"), env.get("YARN_CONF_DIR")
    for folder in filter(None, folders):
        with suppress(OSError):
            if setting.encode() in Path(folder, file).read_bytes():
                return True
    return False


def _spark_conf_dir(env: Mapping[str, str]) -> str:
    return env.get("SPARK_CONF_DIR", f"{spark_home()}/conf")


def for_spark(job: Job, python: str = "") -> dict[str, str]:
    """The environment variables that spark-submit needs; `python` runs the driver and the workers of the executors."""
    home, python = str(spark_home()), python or sys.executable
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_local(job) else {}
    return local | {"SPARK_HOME": home, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def check_conf(conf: Mapping[str, str]) -> None:
    """Raises TaskError for the first setting that a task may not set."""
    for key, value in conf.items():
        if problem := conf_problem(key, value):
            raise TaskError(problem)


def conf_problem(key: str, value: str) -> str | None:
    """Why a task may not set this setting; None if it may."""
    if not key.startswith("spark."):
        return f"conf {key!r}: names of Spark settings start with 'spark.'"
    if _RESERVED.fullmatch(key):
        return f"conf {key!r} is set by the scheduler and cannot be set by a task"
    if _DENIED.fullmatch(key):
        return f"conf {key!r} is not allowed in a task; an operator can set it in spark-defaults.conf"
    if any(character in key + value for character in "\n\r\0"):
        return f"conf {key!r}: line breaks and NUL are not allowed"
    return None


def properties(conf: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key.translate(_ESCAPED)}={value.translate(_ESCAPED)}\n" for key, value in conf.items())


def is_local(job: Job) -> bool:
    return job.spark_master.startswith("local")


def spark_home() -> Path:
    """The folder of the installed pyspark, found without an import."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise TaskError(f"pyspark is not installed in {sys.prefix}; install tidegate[spark]")
    return Path(found.origin).parent
