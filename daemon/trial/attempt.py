"""Executes tasks of a test: functions in this process, programs as its children, SQL on a session."""

import logging
import os
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from tidegate.daemon.settings import PREFIX, Settings, secrets_dirs
from tidegate.daemon.spark.contract import CallbackTask, SubmissionSpec
from tidegate.daemon.spark.process import tail
from tidegate.daemon.spark.runner import environment, kinds, secrets
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.own_session import LazySession
from tidegate.daemon.spark.runner.produced import with_events
from tidegate.daemon.spark.runner.task_outcome import outcome_of
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.schemas.authoring.trial import Replacements
from tidegate.schemas.dag import FunctionTask, ModuleSource, ProgramTask, SqlTask, TaskSpec
from tidegate.schemas.run import RunContext

log = logging.getLogger("tidegate")


class Attempts:
    """Executes each attempt in `folder`, the DAG folder. `scratch` gets its log and its temporary files.

    `modules` are files of the DAG folder as they were at the version of a run; applications are taken from them.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        scratch: Path,
        functions: Replacements,
        replace: Replacements,
        spark: Any,
        modules: tuple[ModuleSource, ...] = (),
    ) -> None:
        self._settings, self._folder, self._scratch = settings, folder, scratch
        self._functions, self._replace = functions, replace
        self._spark, self._modules = spark, modules

    def execute(self, task: TaskSpec | CallbackTask, context: RunContext) -> Outcome:
        """The outcome. Only an interrupt by the user, and what is no Exception in a replacement, is raised."""
        execution = self._execution(task, context)
        with chdir(self._folder):
            outcome = outcome_of(lambda: self._call(execution, task), self._folder, _report, Exception)
            return with_events(outcome, execution.run)

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
        execution = execution._replace(secrets=secrets.read_all(execution.job))
        match task:
            case FunctionTask():
                with _environment(execution, task):
                    return self._functions[task.task_id](self._spark, execution.run)
            case SqlTask():
                kinds.run_statement(self._spark, execution, task)
                return None
            case _:
                with _printed(execution.spool.log):
                    return kinds.run(execution)


def own_session() -> closing[LazySession]:
    """The session of tasks that are given none, to close at the end of a `with` block."""
    return closing(LazySession(os.environ.get(f"{PREFIX}SPARK_REMOTE", "")))


def _report(error: BaseException) -> None:
    """Without a configuration of logs, the traceback is printed."""
    log.warning("the task raised", exc_info=error)


@contextmanager
def _environment(execution: Execution, task: ProgramTask) -> Iterator[None]:
    """The variables of the task, until it ends."""
    before = dict(os.environ)
    os.environ |= environment.of(execution, msgspec.structs.replace(task, python=""))  # a function is called in this process
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


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
