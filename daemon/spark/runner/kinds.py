"""The kinds of task: one module of this package each, named like the kind.

Imported when needed: pyspark takes two seconds, and most kinds do not use it.
"""

from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, cast

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import kind_of


class Kind(Protocol):
    """The interface of these modules."""

    def run(self, job: Job, task: Any, spool: Spool, /) -> object:
        """Execute the task; returns its result, raises when it failed."""

    def end(self, job: Job, /) -> None:
        """End the task's work on other hosts, in bounded time. Idempotent."""


def load(job: Job) -> Kind:
    """Raises TaskError when a package for this kind is not installed."""
    kind = kind_of(job.spec.task)
    try:
        return cast(Kind, import_module(f"{__package__}.{kind}"))
    except ImportError as error:
        raise TaskError(f"tasks of kind {kind} need tidegate[spark]: {error}") from error


def end(job: Job) -> None:
    """End the task's work on other hosts. A kind that cannot be loaded here has started none."""
    with suppress(TaskError):
        load(job).end(job)
