"""Tasks that are one SQL statement."""

from tidegate.daemon.spark.job import Job
from tidegate.daemon.spark.runner import session
from tidegate.daemon.spark.runner.template import render
from tidegate.daemon.spark.spool import Spool
from tidegate.schemas.dag import SqlTask

SHOWN_ROWS = 200


end = session.end


def run(job: Job, task: SqlTask, _: Spool) -> None:
    """Log the first `SHOWN_ROWS` rows of the result; Spark computes no more than these."""
    statement = render(task.sql, job.spec, "the SQL")
    result = session.begin(job).sql(statement)
    if result.columns:
        result.show(SHOWN_ROWS, truncate=False)
