"""The environment of a task: that of its runner, and what the DAG file adds."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.runner import own_python
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.rendering import render
from tidegate.schemas.dag import ProgramTask, Secret


def of(execution: Execution, task: ProgramTask) -> dict[str, str]:
    """All variables of the task. The stamp comes last: by it the runner finds the processes.

    Raises TaskError for an invalid template, and an interpreter that is not there.
    """
    own_python.check(task.python, execution.job.host)
    added = {name: text(execution, value, f"env {name!r}") for name, value in task.env.items()}
    own = own_python.variables(task.python, os.environ) if task.python else own_python.of_daemon(sys.executable, os.environ)
    return {**os.environ, **own, **added, STAMP: str(execution.spool.submission_id)}


def text(execution: Execution, value: str | Secret, what: str) -> str:
    """The value of a secret, or a rendered template. Raises TaskError naming `what`."""
    return execution.secrets[value.secret] if isinstance(value, Secret) else render(value, execution.job.spec, what)


@contextmanager
def applied(variables: Mapping[str, str]) -> Iterator[None]:
    """The variables are those of this process during the block: libraries such as gRPC read them when they are first used."""
    before = dict(os.environ)
    os.environ |= variables
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before
