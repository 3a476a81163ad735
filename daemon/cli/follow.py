"""Watch a run until it ends, through outages of Postgres too."""

from datetime import UTC, datetime

import anyio

from tidegate.daemon.cli import output
from tidegate.daemon.cli.lookup import find_run
from tidegate.daemon.cli.moment import utc
from tidegate.daemon.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import runs
from tidegate.schemas.queries.runs import RunRow, RunTaskRow
from tidegate.schemas.state import RUN_ENDED, TaskState

POLL_S = 0.3
AWAY_POLL_S = 2.0
UNSUCCESSFUL = (TaskState.FAILED, TaskState.UPSTREAM_FAILED)


async def follow(database: Database, run: RunRow) -> RunRow:
    """The run as it ended. Its progress, and in the end what failed, is said on stderr."""
    said = _say(run, "")
    while run.state not in RUN_ENDED:
        await anyio.sleep(POLL_S)
        run = await _again(database, run)
        said = _say(run, said)
    for task in await database.run(lambda db: runs.tasks_of(db, run.dag_id, run.run_id)):
        if task.state in UNSUCCESSFUL:
            output.say(_failure(task))
    return run


async def _again(database: Database, run: RunRow) -> RunRow:
    away = False
    while True:
        try:
            return await database.run(lambda db: find_run(db, run.dag_id, run.run_id))
        except UnavailableError as error:
            if not away:
                output.say(f"{utc(datetime.now(UTC))}  waiting for Postgres ({error})")
            away = True
        await anyio.sleep(AWAY_POLL_S)


def _say(run: RunRow, said: str) -> str:
    """The progress, said unless it is the same as before."""
    progress = f"{run.state}, {run.tasks - run.unfinished} of {run.tasks} tasks ended"
    if progress != said:
        output.say(f"{utc(datetime.now(UTC))}  {progress}")
    return progress


def _failure(task: RunTaskRow) -> str:
    reason = f": {output.printable(task.reason)}" if task.reason else ""
    return f"task {task.task_id} {task.state}{reason}"
