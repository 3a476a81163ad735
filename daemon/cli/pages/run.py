"""`runs show`: a run with its events, its journal, its tasks and their attempts. Also lines of run and task lists."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.notices import print_notices
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.notifications import NotificationRow, list_notifications
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunEventRow, RunMoveRow, RunRow, RunTaskRow
from tidegate.schemas.state import TaskState
from tidegate.schemas.timetable.text import age, span, took, utc

RUN_TITLES = ("RUN", "TYPE", "STATE", "TASKS", "LOGICAL DATE", "CREATED", "AGE", "TOOK")
EVENT_TITLES = ("DATASET", "OCCURRED", "SOURCE", "ID", "EXTRA")
JOURNAL_TITLES = ("SEQ", "STATE", "AT", "REASON")
TASK_TITLES = ("TASK", "STATE", "TRY", "STARTED", "TOOK", "REASON")
ATTEMPT_TITLES = ("TASK", "TRY", "STATE", "BACKEND", "HOST", "STARTED", "TOOK", "EXIT", "REASON")


class TaskPage(msgspec.Struct, frozen=True):
    """A task with its attempts, oldest first."""

    task: RunTaskRow
    attempts: Sequence[RunAttemptRow]


class RunPage(msgspec.Struct, frozen=True):
    """A run. `tasks` is empty before it starts. `forgotten` consumed events are older than the retention."""

    run: RunRow
    conf: dict[str, Any]
    events: Sequence[RunEventRow]
    forgotten: int
    journal: Sequence[RunMoveRow]
    tasks: Sequence[TaskPage]
    deadlines: Sequence[DeadlineRow]
    notifications: Sequence[NotificationRow]


async def read_page(db: Db, run: RunRow) -> RunPage:
    key = (run.dag_id, run.run_id)
    attempts: dict[str, list[RunAttemptRow]] = defaultdict(list)
    for attempt in await run_pages.attempts_of(db, *key):
        attempts[attempt.task_id].append(attempt)
    events = await run_pages.events_of(db, *key)
    return RunPage(
        run=run,
        conf=await run_pages.conf_of(db, *key),
        events=events,
        forgotten=await run_pages.event_count(db, *key) - len(events),
        journal=await run_pages.journal_of(db, *key),
        tasks=[TaskPage(task, attempts[task.task_id]) for task in await run_pages.tasks_of(db, *key)],
        deadlines=await list_deadlines(db, dag_id=run.dag_id, run_id=run.run_id),
        notifications=await list_notifications(db, dag_id=run.dag_id, run_id=run.run_id),
    )


def print_page(page: RunPage, now: datetime) -> None:
    run = page.run
    output.heading(f"{run.dag_id} {run.run_id}")
    output.facts(
        (
            ("state", run.state),
            ("type", run.run_type),
            ("version", run.version),
            ("conf", output.compact(page.conf)),
            ("logical date", run.logical_date),
            ("data interval", _interval(run)),
            ("run after", run.run_after),
            ("created", f"{utc(run.created_at)}, {age(run.created_at, now)} ago"),
            ("started", _started(run)),
            ("ended", run.end_date),
            ("took", took(run.start_date, run.end_date, now)),
        )
    )
    print_events(EVENT_TITLES, map(_event_cells, page.events), page.forgotten)
    output.section("journal", JOURNAL_TITLES, ((m.seq, m.state, m.at, m.reason) for m in page.journal), empty="none")
    output.section("tasks", TASK_TITLES, (task_cells(task.task, now) for task in page.tasks), empty="not started yet")
    attempts = [_attempt_cells(attempt, now) for task in page.tasks for attempt in task.attempts]
    output.section("attempts", ATTEMPT_TITLES, attempts, empty="none")
    print_notices(page.deadlines, page.notifications, now)


def print_events(titles: Sequence[str], rows: Iterable[Sequence[output.Cell]], forgotten: int) -> None:
    """The events that a run consumed, and how many more there were."""
    known = list(rows)
    older = f"{forgotten}{' more' if known else ''} older than the retention of the ledger"
    output.section("consumed events", titles, known, empty=older if forgotten else "none")
    if known and forgotten:
        output.write(f"  {older}")


def _started(run: RunRow) -> str | None:
    if run.start_date is None or run.schedule_delay_s is None:
        return None
    return f"{utc(run.start_date)}, {span(run.schedule_delay_s)} after it was due"


def run_cells(run: RunRow, now: datetime) -> tuple[output.Cell, ...]:
    """A line of a list of runs, for `RUN_TITLES`."""
    ended = f"{run.tasks - run.unfinished}/{run.tasks}"
    duration = took(run.start_date, run.end_date, now)
    return run.run_id, run.run_type, run.state, ended, run.logical_date, run.created_at, age(run.created_at, now), duration


def task_cells(task: RunTaskRow, now: datetime) -> tuple[output.Cell, ...]:
    """A line of a run's tasks, for `TASK_TITLES`."""
    if task.state == TaskState.NONE:
        return task.task_id, task.state, task.try_number or None, None, None, None  # an earlier try says nothing about this one
    reason = task.reason
    if task.next_try_at is not None and task.state == "up_for_retry":
        reason = f"next try at {utc(task.next_try_at)}" + (f"; {reason}" if reason else "")
    tries = task.try_number or None
    return task.task_id, task.state, tries, task.start_date, took(task.start_date, task.end_date, now), reason


def _interval(run: RunRow) -> str | None:
    if run.data_interval_start is None or run.data_interval_end is None:
        return None
    return f"{utc(run.data_interval_start)} to {utc(run.data_interval_end)}"


def _attempt_cells(attempt: RunAttemptRow, now: datetime) -> tuple[output.Cell, ...]:
    return (
        attempt.task_id,
        attempt.try_number,
        attempt.state,
        attempt.backend,
        attempt.host,
        attempt.started_at,
        took(attempt.started_at, attempt.ended_at, now),
        attempt.exit_code,
        attempt.reason,
    )


def _event_cells(event: RunEventRow) -> tuple[output.Cell, ...]:
    return event.uri, event.occurred_at, event.source, event.event_id, output.compact(event.extra)
