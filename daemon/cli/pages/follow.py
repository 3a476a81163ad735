"""Follow a run or a backfill until it ends, also through outages of Postgres."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Concatenate, ParamSpec, TypeVar

import anyio

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.backfill import line
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.backfill import read_backfill
from tidegate.daemon.read_model.backfill_progress import Progress, read_progress
from tidegate.daemon.read_model.backfill_reasons import why
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.run import read_open
from tidegate.daemon.read_model.run_progress import read_run_progress
from tidegate.daemon.settings import Settings
from tidegate.daemon.terminal import printable
from tidegate.schemas.error import DagFaultError, RequestError, UnavailableError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunRow, RunTaskRow
from tidegate.schemas.state import BACKFILL_ENDED, RUN_ENDED, BackfillState, TaskState
from tidegate.schemas.text import utc

T = TypeVar("T")
P = ParamSpec("P")

POLL_S = 0.3
AWAY_POLL_S = 2.0
PATIENCE_S = 3.0
"""A run that has not progressed for this long is explained."""
UNSUCCESSFUL = (TaskState.FAILED, TaskState.UPSTREAM_FAILED)


async def follow(database: Database, run: RunRow, settings: Settings) -> RunRow:
    """The run after its end. Progress, what it waits for and failed tasks go to stderr."""
    printed, why, since = print_progress(run, ""), "", anyio.current_time()
    while run.state not in RUN_ENDED:
        await anyio.sleep(POLL_S)
        run = await _retrying(database, find_run, run.dag_id, run.run_id)
        before, printed = printed, print_progress(run, printed)
        if printed != before:
            since = anyio.current_time()
        if anyio.current_time() - since >= PATIENCE_S:
            why, since = await _print_why(database, run, settings, why), anyio.current_time()
    print_failed(await _retrying(database, run_pages.tasks_of, run.dag_id, run.run_id))
    return run


async def follow_backfill(database: Database, row: BackfillRow) -> BackfillRow:
    """The backfill after its end. Its progress goes to stderr."""
    printed = ""
    while True:
        row, progress = await _retrying(database, _progress_of, row.id)
        printed = print_backfill(row, progress, printed)
        if row.state in BACKFILL_ENDED:
            return row
        await anyio.sleep(POLL_S)


def print_backfill(row: BackfillRow, progress: Progress, printed: str) -> str:
    """Print the progress: on a terminal in one line, elsewhere in a line for each change. Returns it."""
    text = line(row, progress, with_time=sys.stderr.isatty())
    text += "" if row.state is BackfillState.RUNNING else f" | {row.state}"
    text += f" | {why(row)}" if row.dag_state and row.state not in BACKFILL_ENDED else ""
    if text != printed:
        _show(text, printed)
    if row.state in BACKFILL_ENDED and sys.stderr.isatty():
        output.say("")
    return text


async def _progress_of(db: Db, id_: int) -> tuple[BackfillRow, Progress]:
    row = await read_backfill(db, id_, deleted=True)
    return row, await read_progress(db, row)


def _show(text: str, before: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:{len(before)}}")
        sys.stderr.flush()
    else:
        output.say(f"{utc(datetime.now(UTC))}  {text}")


async def wait_killed(database: Database, run: RunRow) -> None:
    """Wait until every attempt of a run has ended. The open ones go to stderr."""
    printed = ""
    while True:
        printed = print_left(await _retrying(database, read_open, run), printed)
        if not printed:
            return
        await anyio.sleep(POLL_S)


def print_left(attempts: Sequence[RunAttemptRow], printed: str) -> str:
    """Print the open attempts if they have changed; returns their names, empty without one."""
    left = ", ".join(f"try {attempt.try_number} of {attempt.label}" for attempt in attempts)
    if left and left != printed:
        output.say(f"{utc(datetime.now(UTC))}  waiting for the kill of {left}")
    return left


async def _retrying(database: Database, read: Callable[Concatenate[Db, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `read`, as soon as Postgres is available."""
    away = False
    while True:
        try:
            return await database.run(read, *args, **kwargs)
        except UnavailableError as error:
            if not away:
                output.say(f"{utc(datetime.now(UTC))}  waiting for Postgres ({error})")
            away = True
        await anyio.sleep(AWAY_POLL_S)


def print_failed(tasks: Sequence[RunTaskRow]) -> None:
    """Print why tasks of a run did not succeed."""
    for task in tasks:
        if task.state in UNSUCCESSFUL:
            output.say(_failure(task))


def print_progress(run: RunRow, printed: str) -> str:
    """Print the progress if it has changed."""
    progress = f"{run.state}, {run.tasks - run.unfinished} of {run.tasks} tasks ended"
    if progress != printed:
        output.say(f"{utc(datetime.now(UTC))}  {progress}")
    return progress


async def _print_why(database: Database, run: RunRow, settings: Settings, printed: str) -> str:
    """Print what the run waits for, if that has changed."""
    try:
        found = why_waiting(await _retrying(database, read_run_progress, run, settings))
    except (DagFaultError, RequestError) as error:
        found = str(error)
    return print_waiting(found, printed)


def print_waiting(found: str, printed: str) -> str:
    """Print why a run waits if that has changed."""
    if found and found != printed:
        output.say(f"{utc(datetime.now(UTC))}  {found}")
    return found


def why_waiting(page: RunProgress) -> str:
    """Why the run waits, or its first waiting task with a reason; empty while a task is at work."""
    waiting = [("the run", page.blocked_by), *((f"task {task.task_id}", task.blocked_by) for task in page.waiting)]
    found = (f"{name} waits: {'; '.join(reason.text for reason in reasons)}" for name, reasons in waiting if reasons)
    return "" if page.working else next(found, "")


def _failure(task: RunTaskRow) -> str:
    reason = f": {printable(task.reason)}" if task.reason else ""
    return f"task {task.label} {task.state}{reason}"
