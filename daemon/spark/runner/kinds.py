"""The kinds of task: how the runner executes each kind, and ends its work on other hosts.

What few kinds use is imported when needed: pyspark takes two seconds, the classes of DAG files as long as a short command.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.daemon.spark import unconfirmed
from tidegate.daemon.spark.contract import CallbackTask, SubmissionSpec
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import (
    application_files,
    child,
    environment,
    own_python,
    sql_result,
    stamped_application,
    submit,
)
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.pinned_modules import cache_lines, install
from tidegate.daemon.spark.runner.rendering import render
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.schemas.dag import CommandTask, FunctionTask, SqlTask, SubmitTask, kind_of
from tidegate.schemas.error import FATAL, described
from tidegate.schemas.run import Run

if TYPE_CHECKING:
    from tidegate.schemas.authoring.dag import Dag

log = logging.getLogger("tidegate")

SHOWN_ROWS = 200

ORDERLY = range(1, 50)
"""Exit codes of drivers whose JVM ended in order. Spark itself ends by codes from 50 on, and a signal by a negative one."""

END_S = 5.0
"""How long a Spark server may take to end a session while others wait for the runner."""


def run(execution: Execution) -> object:
    """Execute the task; returns its result, and gives `run` its events.

    Raises TaskError, or what a function of the DAG file raises.
    """
    task = execution.job.spec.task
    return RUN[type(task)](execution, task)


def end(job: Job, spool: Spool, within_s: float = END_S, *, again: bool = False) -> str:
    """End what the task has on a cluster, from any process, in bounded time, with its own environment and settings. Idempotent.

    Why it may go on there; empty once the cluster has confirmed the end. `again`: try until it does. The other kinds run in
    processes of this host only.
    """
    task = job.spec.task
    try:
        if isinstance(task, SubmitTask) and stamped_application.is_stamped(job):
            return submit.end(Execution.again(job, spool), task, within_s)
        if isinstance(task, FunctionTask | SqlTask) and unconfirmed.has_begun(spool):
            return _end_session(job, spool, within_s, again=again)
    except (TaskError, DamagedError, OSError) as error:
        return f"its application may go on: {error}"
    return ""


def may_leave_work(job: Job, outcome: Outcome) -> bool:
    """Whether work of the task may be left at its cluster. Spark has ended an application whose driver ended in order."""
    is_orderly = isinstance(job.spec.task, SubmitTask) and outcome.outcome == "failed" and outcome.exit_code in ORDERLY
    return outcome.outcome != "succeeded" and not is_orderly


def close(job: Job, spool: Spool) -> None:
    """Close the session of a task that has succeeded. Its server may be busy: it ends later then."""
    if isinstance(job.spec.task, FunctionTask | SqlTask):
        _end_session(job, spool, END_S, again=False)


def _end_session(job: Job, spool: Spool, within_s: float, *, again: bool) -> str:
    """With the variables of the task, such as the certificates of the server, as far as they can be read."""
    variables: Mapping[str, str] = {}
    if isinstance(job.spec.task, FunctionTask):
        with suppress(TaskError, DamagedError, OSError):
            variables = environment.of(Execution.again(job, spool), job.spec.task)
    with environment.applied(variables):
        try:
            session = _session(job)
        except TaskError:  # a session that cannot be loaded here has not begun
            return ""
        return str(session.end(job, within_s, again=again))


def _run_function(execution: Execution, task: FunctionTask) -> object:
    """Call the function, at the run's version, in this thread; returns its result. In an environment of its own: its outcome."""
    job = execution.job
    variables = environment.of(execution, task)
    session = _session(job)  # Also of a function that runs elsewhere: `end` needs it, or its work would go on beside a retry.
    if task.python:
        return own_python.call(execution, task.python, variables)
    os.environ |= variables
    function = _named(job, "function", lambda dag: dag.functions)
    return function(_begin(session, execution), execution.run)


def _run_callback(execution: Execution, task: CallbackTask) -> None:
    """Call a function that receives notifications; its return value is ignored."""
    _named(execution.job, "callback", lambda dag: dag.callback_functions)(task.context)


def _run_sql(execution: Execution, task: SqlTask) -> None:
    session = _session(execution.job)
    statement = render(task.sql, execution.job.spec, "the SQL")
    _run_statement(_begin(session, execution), statement, execution.run)


def _begin(session: Any, execution: Execution) -> Any:
    """The session of the task. Raises TaskError where the server opens none: then there is none to end."""
    try:
        return session.begin(execution.job)
    except TaskError:
        unconfirmed.nothing_began(execution.spool)
        raise


def run_statement(spark: Any, execution: Execution, task: SqlTask) -> None:
    """Run the statement of a task on a session that is there."""
    _run_statement(spark, render(task.sql, execution.job.spec, "the SQL"), execution.run)


def _run_statement(spark: Any, statement: str, run: Run) -> None:
    """Log the first `SHOWN_ROWS` rows of the result; Spark computes no more than these.

    A result that is about the outlets of the task has one row, which the outlets get.
    """
    result = spark.sql(statement)
    if sql_result.has_extra(result.columns, run):
        rows = result.limit(2).collect()
        log.info("the statement returned %s", [row.asDict() for row in rows])
        sql_result.add_extra(result.columns, rows, run)
    elif result.columns:
        result.show(SHOWN_ROWS, truncate=False)


def _run_command(execution: Execution, task: CommandTask) -> None:
    job = execution.job
    argv = [render(argument, job.spec, f"argument {number} of the command") for number, argument in enumerate(task.argv, start=1)]
    env = environment.of(execution, task)
    child.run(argv, env, execution, child.named(argv[0], env, job.host), _working_folder(job, task))


def _working_folder(job: Job, task: CommandTask) -> Path:
    return application_files.below(Path(job.dags_folder), render(task.cwd, job.spec, "cwd"), "cwd", is_folder=True)


RUN: Mapping[type, Callable[[Execution, Any], object]] = {
    FunctionTask: _run_function,
    CallbackTask: _run_callback,
    SqlTask: _run_sql,
    CommandTask: _run_command,
    SubmitTask: submit.run,
}


def _session(job: Job) -> Any:
    """The module of Spark sessions. Raises TaskError when pyspark, or what it needs, is not installed or cannot be imported."""
    try:
        return import_module("tidegate.daemon.spark.runner.session")
    except FATAL:
        raise
    except Exception as error:  # versions that do not fit each other raise errors of any type
        where = f"in the environment of {sys.executable}"
        raise TaskError(f"tasks of kind {kind_of(job.spec.task)} need tidegate[spark] {where}: {described(error)}") from error


def _named(job: Job, what: str, functions: "Callable[[Dag], Mapping[str, Callable[..., Any]]]") -> Callable[..., Any]:
    """The function of the DAG file named like the task.

    Raises TaskError if the file does not build it on this host; the file may depend on the host and import from the DAG folder.
    """
    spec, dag = job.spec, pinned_dag(job.dags_folder, job.spec)
    if dag is None or spec.task.task_id not in functions(dag):
        raise TaskError(f"{spec.dag_path} builds no DAG {spec.run.dag_id!r} with a {what} {spec.task.task_id!r} on this host")
    return functions(dag)[spec.task.task_id]


def pinned_dag(folder: str, spec: SubmissionSpec) -> "Dag | None":
    """The DAG as the file builds it at the run's version, with the modules of the DAG folder as they were then.

    Raises TaskError for a file that exits, which would look like the end of the task.
    """
    from tidegate.schemas.authoring.build import build  # noqa: PLC0415 - tasks of other kinds build no DAG

    sys.path.insert(0, folder)
    filename = str(Path(folder, spec.dag_path))
    cache_lines(filename, spec.source)
    install(Path(folder), spec.dag_path, spec.modules)
    try:
        built = build(spec.source, filename)
    except SystemExit as stop:
        raise TaskError(f"{spec.dag_path} called sys.exit({stop.code!r}) on this host; a DAG file only builds DAGs") from stop
    return next((dag for dag in built if dag.dag_id == spec.run.dag_id), None)
