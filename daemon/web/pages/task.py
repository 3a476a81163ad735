"""A task of a run: its attempts, its log, and why it waits."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct, field

from tidegate.daemon.gateway.endpoint import Call, Load
from tidegate.daemon.gateway.paths import TaskPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.logs import Log, LogReader, LogRequest
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.daemon.read_model.results import result_of
from tidegate.daemon.read_model.why_not import read_task_why_not
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.fields import json_text
from tidegate.daemon.web.pages.run_forms import TASK
from tidegate.daemon.web.rendering import state_word
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import DagFaultError, RequestError, UnavailableError
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.queries import notes, run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.run_pages import RunAttemptRow, RunRow, RunTaskRow
from tidegate.schemas.state import TASK_ENDED, TaskState

SHOWN = 200_000
"""About the most bytes of a log on the page."""


class TaskParams(TaskPath, frozen=True):
    """A task, and the number of a try; the last one without."""

    try_: Annotated[int, Meta(ge=1)] | None = field(default=None, name="try")


class TaskRecord(Struct, frozen=True):
    """What the database knows of a task. `why` is None for a task that has ended, or whose version cannot be read."""

    run: RunRow
    task: RunTaskRow
    attempts: Sequence[RunAttemptRow]
    why: TaskExplanation | None
    result: str
    note: Note | None


class TaskScreen(Struct, frozen=True):
    """A task with the end of a log. `no_log` says why there is no log. `cut` bytes were left out at the beginning of the log."""

    record: TaskRecord
    shown_try: int | None
    log: str
    no_log: str
    cut: int

    @property
    def log_tail(self) -> str:
        """The last lines of the log, which are kept of a try that did not succeed."""
        shown = (attempt for attempt in self.record.attempts if attempt.try_number == self.shown_try)
        return next((attempt.log_tail or "" for attempt in shown), "")

    @property
    def no_attempt(self) -> str:
        """Why the task has no attempt."""
        state = self.record.task.state
        return f"Nothing was run for it: {state_word(state)}." if state in TASK_ENDED else "No attempt yet."


async def read(call: Call[TaskParams]) -> TaskScreen:
    """The log is read after the transaction: it may be long, and its backend slow."""
    record = await call.service.reader.run(_record, call.params, call.settings)
    last = record.attempts[-1].try_number if record.attempts else None
    shown_try = call.params.try_ or last
    log, no_log = await _log(call, record.run)
    return TaskScreen(record, shown_try, log.content if log else "", no_log, log.offset if log else 0)


async def _record(db: Db, params: TaskParams, settings: Settings) -> TaskRecord:
    run = await find_run(db, params.dag_id, params.run_id)
    task = await find_task(db, run, params.task_id)
    attempts = await run_pages.attempts_of(db, run.dag_id, run.run_id, task.label)
    why, result = None, None
    with suppress(DagFaultError):
        if task.state not in TASK_ENDED:
            why = await read_task_why_not(db, run, task.label, settings)
        elif task.state == TaskState.SUCCESS:
            result = await result_of(db, run, task.label)
    note = await notes.note_on(db, run.dag_id, run.run_id, task.label)
    return TaskRecord(run, task, attempts, why, "" if result is None else json_text(result), note)


async def _log(call: Call[TaskParams], run: RunRow) -> tuple[Log | None, str]:
    """The end of the log, and why there is none."""
    request = LogRequest(run.dag_id, run.run_id, call.params.task_id, call.params.try_)
    try:
        reader = LogReader(call.settings, call.service.reader, request, call.service.backends)
        return await reader.document(SHOWN), ""
    except (RequestError, UnavailableError) as error:
        return None, str(error)


SCREEN = Screen(Load(TASK, Right.VIEW, read, TaskParams, TaskScreen), "task.html")
