"""The environment of a task: that of its runner, and what the DAG file adds."""

import os
from collections.abc import Mapping

from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.template import render
from tidegate.schemas.dag import Secret


def of(execution: Execution, env: Mapping[str, str | Secret]) -> dict[str, str]:
    """All variables of the task. None of them hides its processes from the runner. Raises TaskError for an invalid template."""
    added = {name: text(execution, value, f"env {name!r}") for name, value in env.items()}
    return {**os.environ, **added, STAMP: str(execution.spool.submission_id)}


def text(execution: Execution, value: str | Secret, what: str) -> str:
    """The value of a secret, or a rendered template. Raises TaskError naming `what`."""
    return execution.secrets[value.secret] if isinstance(value, Secret) else render(value, execution.job.spec, what)
