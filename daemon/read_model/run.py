"""A run as a page: its events, its journal, its tasks and their attempts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import consumers, notes, run_pages
from tidegate.schemas.queries.consumers import RewrittenInput
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.notifications import NotificationRow, list_notifications
from tidegate.schemas.queries.run_pages import (
    IndexedTask,
    RunAttemptRow,
    RunEventRow,
    RunMoveRow,
    RunRow,
    RunTaskRow,
)
from tidegate.schemas.state import SUBMISSION_OPEN, TaskState
from tidegate.schemas.text import utc

MOST_FAILURES = 10
MOST_TASKS = 1_000


class TaskPage(msgspec.Struct, frozen=True):
    """A task with its attempts, oldest first."""

    task: RunTaskRow
    attempts: Sequence[RunAttemptRow]


class RunPage(msgspec.Struct, frozen=True):
    """A run. `tasks` is empty before it starts; `tasks_left` more are not in it. `states` counts all in each state.

    `forgotten` consumed events are older than the retention. Its limit left `events_left` events pending, at least.
    `rewritten` are inputs that were written again since the run started, or are at it.
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
    tasks_left: int = 0
    states: Mapping[str, int] = {}
    rewritten: Sequence[RewrittenInput] = ()


def rewritten_text(found: RewrittenInput) -> str:
    """That an input of a run was written again since."""
    writer = f"task {found.label} of {found.dag_id} {found.run_id}"
    if found.written_at is None:
        return f"{found.uri} is written again: {writer} is {found.state} since it was cleared"
    if found.state == TaskState.SUCCESS:
        return f"{found.uri} was written again at {utc(found.written_at)}: {writer} ran again after this run had started"
    return f"{found.uri} may be incomplete: {writer} ran again and is {found.state} since {utc(found.written_at)}"


async def read_open(db: Db, run: RunRow) -> list[RunAttemptRow]:
    """The attempts of a run that have not ended; a killed one is open until its backend has confirmed that."""
    return await run_pages.attempts_of(db, run.dag_id, run.run_id, states=SUBMISSION_OPEN)


async def read_run_page(db: Db, run: RunRow) -> RunPage:
    key = (run.dag_id, run.run_id)
    found = await run_pages.page_of_tasks(db, *key, limit=MOST_TASKS)
    states = await run_pages.states_of(db, *key)
    events, count = await run_pages.events_of(db, *key), await run_pages.event_count(db, *key)
    return RunPage(
        run=run,
        conf=await run_pages.conf_of(db, *key),
        events=events,
        forgotten=count.consumed - len(events),
        events_left=count.left_pending,
        journal=await run_pages.journal_of(db, *key),
        failures=await read_failures(db, run, states, MOST_FAILURES),
        tasks=await _with_attempts(db, run, found),
        deadlines=await list_deadlines(db, dag_id=run.dag_id, run_id=run.run_id),
        notifications=await list_notifications(db, dag_id=run.dag_id, run_id=run.run_id),
        notes=await notes.of_run(db, *key),
        tasks_left=sum(states.values()) - len(found),
        states=states,
        rewritten=await consumers.rewritten_inputs(db, *key),
    )


async def read_failures(db: Db, run: RunRow, states: Mapping[str, int], limit: int) -> Sequence[FailedTask]:
    """The first failed tasks of a run. `states` has the number of its tasks in each state."""
    return await run_pages.failures_of(db, run.dag_id, run.run_id, limit) if states.get(TaskState.FAILED) else ()


async def _with_attempts(db: Db, run: RunRow, found: Sequence[IndexedTask]) -> list[TaskPage]:
    """By index: a removed task may have the name of another one."""
    attempts: dict[int, list[RunAttemptRow]] = defaultdict(list)
    for index, attempt in await run_pages.attempts_at(db, run.dag_id, run.run_id, [task.index for task in found]):
        attempts[index].append(attempt)
    return [TaskPage(task.row, attempts[task.index]) for task in found]
