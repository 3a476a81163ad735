"""`python -m tidegate.daemon.spark.runner.function SPOOL/SUBMISSION_ID OUTCOME`: the function of a task, in this environment.

The runner of the task starts it in the environment that the task names, and reads the outcome from the file.
"""

import os
import sys
from pathlib import Path
from uuid import UUID

import msgspec

from tidegate.daemon.spark import event_file, whole_file
from tidegate.daemon.spark.runner import kinds
from tidegate.daemon.spark.runner.attempt import Attempt
from tidegate.daemon.spark.runner.task_log import set_up_log
from tidegate.daemon.spark.spool import Job, Spool
from tidegate.schemas.dag import FunctionTask


def main() -> None:
    path, outcome = map(Path, sys.argv[1:])
    set_up_log()
    spool = Spool(path.parent, UUID(path.name))
    stored = spool.job()
    if stored is None:
        sys.exit(f"{path} has no spec.json")
    job = _here(event_file.complete(spool, stored))
    whole_file.replace(outcome, msgspec.json.encode(Attempt(spool, job).perform()))
    kinds.close(job, spool)
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads of the task


def _here(job: Job) -> Job:
    """The job for this interpreter."""
    task = job.spec.task
    if isinstance(task, FunctionTask):
        task = msgspec.structs.replace(task, python="")
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, task=task))


if __name__ == "__main__":
    main()
