"""The kinds of task a runner can execute: one module of this package each, named like the kind.

Loaded when needed: pyspark takes two seconds to import, and most kinds do without.
"""

from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, cast

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import kind_of


class Kind(Protocol):
    """What each of these modules has."""

    def run(self, job: Job, task: Any, spool: Spool, /) -> object:
        """Execute the task; return when it succeeded, with what it returned, if anything; raise when not."""

    def end(self, job: Job, /) -> None:
        """End what it may have running in other places than this host, in bounded time; it may be called again."""


def load(job: Job) -> Kind:
    """Raises TaskError where something to run it is not installed."""
    kind = kind_of(job.spec.task)
    try:
        return cast(Kind, import_module(f"{__package__}.{kind}"))
    except ImportError as error:
        raise TaskError(f"tasks of kind {kind} need tidegate[spark]: {error}") from error


def end(job: Job) -> None:
    """End what a task may have running in other places than this host. What cannot be loaded here has started nothing."""
    with suppress(TaskError):
        load(job).end(job)
