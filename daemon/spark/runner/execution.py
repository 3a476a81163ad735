"""The execution of a task by its runner: what each kind of task gets."""

from typing import NamedTuple

from tidegate.daemon.spark.spool import Job, Spool
from tidegate.schemas.run import Run


class Execution(NamedTuple):
    """The job of an attempt, its spool, and the run that its task reads and gives its events to."""

    job: Job
    spool: Spool
    run: Run

    @classmethod
    def of(cls, job: Job, spool: Spool) -> "Execution":
        return cls(job, spool, Run.of(job.spec.run, job.spec.task.outlets))
