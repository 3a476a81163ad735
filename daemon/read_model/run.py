"""A run as a page: its events, its journal, its tasks and their attempts."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import notes, run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.notifications import NotificationRow, list_notifications
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunEventRow, RunMoveRow, RunRow, RunTaskRow

MOST_FAILURES = 10


class TaskPage(msgspec.Struct, frozen=True):
    """A task with its attempts, oldest first."""

    task: RunTaskRow
    attempts: Sequence[RunAttemptRow]


class RunPage(msgspec.Struct, frozen=True):
    """A run. `tasks` is empty before it starts.

    `forgotten` consumed events are older than the retention. Its limit left `events_left` events pending, at least.
    """

    run: RunRow
    conf: dict[str, Any]
    events: Sequence[RunEventRow]
    forgotten: int
    events_left: int
    journal: Sequence[RunMoveRow]
    failures: Sequence[FailedTask]
    tasks: Sequence[TaskPage]
    deadlines: Sequence[DeadlineRow]
    notifications: Sequence[NotificationRow]
    notes: Sequence[Note] = ()


async def read_page(db: Db, run: RunRow) -> RunPage:
    key = (run.dag_id, run.run_id)
    attempts: dict[str, list[RunAttemptRow]] = defaultdict(list)
    for attempt in await run_pages.attempts_of(db, *key):
        attempts[attempt.label].append(attempt)
    events, count = await run_pages.events_of(db, *key), await run_pages.event_count(db, *key)
    return RunPage(
        run=run,
        conf=await run_pages.conf_of(db, *key),
        events=events,
        forgotten=count.consumed - len(events),
        events_left=count.left_pending,
        journal=await run_pages.journal_of(db, *key),
        failures=await run_pages.failures_of(db, *key, MOST_FAILURES),
        tasks=[TaskPage(task, attempts[task.label]) for task in await run_pages.tasks_of(db, *key)],
        deadlines=await list_deadlines(db, dag_id=run.dag_id, run_id=run.run_id),
        notifications=await list_notifications(db, dag_id=run.dag_id, run_id=run.run_id),
        notes=await notes.of_run(db, *key),
    )
