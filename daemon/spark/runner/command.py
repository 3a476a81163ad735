"""Tasks that are local programs."""

import os

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import child
from tidegate.daemon.spark.runner.template import render
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import CommandTask


def end(_: Job) -> None:
    """Nothing to end: it runs on this host only."""


def run(job: Job, task: CommandTask, spool: Spool) -> None:
    argv = [render(argument, job.spec, f"argument {number} of the command") for number, argument in enumerate(task.argv)]
    child.run(argv, os.environ | task.env, spool.log, argv[0])
