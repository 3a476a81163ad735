"""The execution of a task by its runner: what each kind of task gets."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tidegate.daemon.spark import event_file
from tidegate.daemon.spark.runner import secrets
from tidegate.daemon.spark.runner.results import results_of
from tidegate.daemon.spark.spool import Job, Spool
from tidegate.schemas.run import Run


class Execution(NamedTuple):
    """The job of an attempt, its spool, the run that its task reads and gives its events to, and the secrets that it names."""

    job: Job
    spool: Spool
    run: Run
    secrets: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, job: Job, spool: Spool) -> "Execution":
        task = job.spec.task
        return cls(job, spool, Run.of(job.spec.run, task.outlets, results_of(job.spec)))

    @classmethod
    def again(cls, job: Job, spool: Spool) -> "Execution":
        """In another process, for the end of the task: with the events of its run and its secrets, as its first one.

        Raises TaskError for a secret that cannot be read, and DamagedError.
        """
        job = event_file.complete(spool, job)
        return cls.of(job, spool)._replace(secrets=secrets.read_all(job))
