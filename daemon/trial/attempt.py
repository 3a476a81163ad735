"""Executes tasks of a test: functions in this process, programs as its children, SQL on a session."""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import launch
from tidegate.daemon.spark.contract import CallbackTask, SubmissionSpec
from tidegate.daemon.spark.host import secrets_dirs
from tidegate.daemon.spark.process import tail
from tidegate.daemon.spark.runner import environment, kinds, secrets
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.produced import with_events
from tidegate.daemon.spark.runner.task_outcome import outcome_of
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.schemas.authoring.trial import Replacements
from tidegate.schemas.dag import FunctionTask, ModuleSource, ProgramTask, SqlTask, TaskSpec
from tidegate.schemas.run import RunContext

log = logging.getLogger("tidegate")

OF_PYSPARK = ("SPARK_", "PYSPARK_")
"""How variables begin in which pyspark keeps what it knows of the sessions of this process."""

TEMPORARY = "TMPDIR"
"""Python reads it once in a process, so temporary files of a function are where those of the process are."""


class Attempts:
    """Executes each attempt in `folder`, the DAG folder. `scratch` gets its log and its temporary files.

    `functions` returns the function of a task, in the environment of the task; what it raises is the outcome.
    `modules` are files of the DAG folder as they were at the version of a run; applications are taken from them.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        scratch: Path,
        functions: Callable[[str], Callable[..., Any]],
        replace: Replacements,
        spark: Any,
        modules: tuple[ModuleSource, ...] = (),
    ) -> None:
        self._settings, self._folder, self._scratch = settings, folder, scratch
        self._functions, self._replace = functions, replace
        self._spark, self._modules = spark, modules

    def execute(self, task: TaskSpec | CallbackTask, context: RunContext) -> Outcome:
        """The outcome. Only an interrupt by the user, and what is no Exception in a replacement, is raised.

        The reason of a failure is logged: pytest shows it where only the states of tasks are compared.
        """
        execution = self._execution(task, context)
        with chdir(self._folder):
            called = outcome_of(lambda: self._call(execution, task), self._folder, _report, Exception)
            outcome = with_events(called, execution.run)
        if outcome.outcome == "failed":
            log.warning("%s failed in try %d: %s", context.task_id, context.try_number, outcome.reason)
        return outcome

    def _execution(self, task: TaskSpec | CallbackTask, context: RunContext) -> Execution:
        spec = SubmissionSpec(
            submission_id=uuid4(),
            try_number=context.try_number,
            task=task,
            run=context,
            dag_path="",
            source="",
            modules=self._modules,
        )
        job = Job(
            spec=spec,
            dags_folder=str(self._folder),
            spark_remote=self._settings.spark_remote,
            spark_master=self._settings.spark_master,
            kafka_servers="",
            topic_prefix="",
            heartbeat_s=self._settings.runner_heartbeat_s,
            secrets_dirs=tuple(map(str, secrets_dirs(self._settings))),
            host=self._settings.host,
        )
        spool = Spool(self._scratch, spec.submission_id)
        spool.make()
        spool.log.touch()
        return Execution.of(job, spool)

    def _call(self, execution: Execution, task: TaskSpec | CallbackTask) -> object:
        if (replacement := self._replace.get(task.task_id)) is not None:
            return replacement(self._spark, execution.run)
        with _environment(execution.spool, task.env if isinstance(task, ProgramTask) else ()):
            return self._perform(execution._replace(secrets=secrets.read_all(execution.job)), task)

    def _perform(self, execution: Execution, task: TaskSpec | CallbackTask) -> object:
        match task:
            case FunctionTask():
                here = msgspec.structs.replace(task, python="")  # a function is called in this process
                os.environ |= environment.of(execution, here)
                return self._functions(task.task_id)(self._spark, execution.run)
            case SqlTask():
                kinds.run_statement(self._spark, execution, task)
                return None
            case _:
                with _printed(execution.spool.log):
                    return kinds.run(execution)


def _report(error: BaseException) -> None:
    """Without a configuration of logs, the traceback is printed."""
    log.warning("the task raised", exc_info=error)


@contextmanager
def _environment(spool: Spool, given: Collection[str]) -> Iterator[None]:
    """The variables that a daemon passes on to tasks, and none of its settings, until the task ends. `given` are of the task."""
    before = dict(os.environ)
    own = {name: value for name, value in launch.environment(before, spool).items() if name != TEMPORARY}
    own |= {name: value for name, value in before.items() if name == TEMPORARY or name.startswith(OF_PYSPARK)}
    _set(own)
    try:
        yield
    finally:
        of_session = {name for name in os.environ if name.startswith(OF_PYSPARK)} - {*own, *given}
        _set(before | {name: os.environ[name] for name in of_session})


def _set(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


@contextmanager
def _printed(path: Path) -> Iterator[None]:
    """Programs print into their log, as below a runner; it is printed when they have ended."""
    kept = [os.dup(stream) for stream in (1, 2)]
    written = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        for stream in (1, 2):
            os.dup2(written, stream)
        yield
    finally:
        for stream, before in zip((1, 2), kept, strict=True):
            os.dup2(before, stream)
        for descriptor in (written, *kept):
            os.close(descriptor)
        os.write(2, tail(path, 0).encode())
