"""A task of a run: its attempts, its log, and why it waits."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

from markupsafe import Markup
from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tidegate.daemon.api.tasks import Offset
from tidegate.daemon.gateway.authenticate import require
from tidegate.daemon.gateway.endpoint import Call, Load, call_of, check_right
from tidegate.daemon.gateway.paths import TaskPath
from tidegate.daemon.gateway.service import Service
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.log_search import LogMatches
from tidegate.daemon.read_model.logs import LogReader, LogRequest, LogWindow
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.daemon.read_model.results import result_of
from tidegate.daemon.read_model.why_not import read_task_why_not
from tidegate.daemon.settings import Settings
from tidegate.daemon.web.ansi import coloured
from tidegate.daemon.web.fields import json_text
from tidegate.daemon.web.pages.run_forms import TASK
from tidegate.daemon.web.rendering import state_word
from tidegate.daemon.web.screen import Screen, guarded
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
    """A task, and the number of a try; the last one without.

    `offset` and `at` are places in its log, in bytes: where the part that is shown begins, and what it is to show. `search` is a
    text, looked for in lines from `after` on.
    """

    try_: Annotated[int, Meta(ge=1)] | None = field(default=None, name="try")
    offset: Offset | None = None
    at: Offset | None = None
    search: Annotated[str, Meta(max_length=200)] = ""
    after: Offset = 0


class TaskRecord(Struct, frozen=True):
    """What the database knows of a task. `why` is None for a task that has ended, or whose version cannot be read."""

    run: RunRow
    task: RunTaskRow
    attempts: Sequence[RunAttemptRow]
    why: TaskExplanation | None
    result: str
    note: Note | None


class TaskScreen(Struct, frozen=True):
    """A task with a part of a log. `no_log` says why there is none. `found` are the lines with the text that is searched."""

    record: TaskRecord
    shown_try: int | None
    window: LogWindow | None
    log: Markup
    no_log: str
    found: LogMatches | None

    @property
    def earlier(self) -> int:
        """Where the part before the shown one begins."""
        return max(self.window.offset - SHOWN, 0) if self.window else 0

    @property
    def end(self) -> int:
        """Where the last part begins."""
        return max(self.window.size - SHOWN, 0) if self.window else 0

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
    window, found, no_log = await _log(call, record.run)
    log = coloured(window.text, call.params.search, window.place) if window else Markup("")
    return TaskScreen(record, shown_try, window, log, no_log, found)


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


async def _log(call: Call[TaskParams], run: RunRow) -> tuple[LogWindow | None, LogMatches | None, str]:
    """A part of the log, the lines that were searched in it, and why there is none."""
    params = call.params
    request = LogRequest(run.dag_id, run.run_id, params.task_id, params.try_)
    try:
        reader = LogReader(call.settings, call.service.reader, request, call.service.backends)
        found = await reader.matches(params.search, params.after) if params.search else None
        return await reader.window(SHOWN, params.offset, params.at), found, ""
    except (RequestError, UnavailableError) as error:
        return None, None, str(error)


async def _download(service: Service, request: Request) -> Response:
    """The log as a file, as it is so far."""
    identity = await require(request, service)
    call = call_of(request, service, identity, LOG, ignores_unknown=True)
    check_right(call, Right.VIEW, call.params.dag_id)
    run = await service.reader.run(find_run, call.params.dag_id, call.params.run_id)
    log = LogRequest(run.dag_id, run.run_id, call.params.task_id, call.params.try_)
    content = await LogReader(call.settings, service.reader, log, service.backends).content()
    return StreamingResponse(content, media_type="text/plain; charset=utf-8", headers={"content-disposition": ATTACHMENT})


def route(service: Service) -> Route:
    return Route(LOG.path, guarded(partial(_download, service)), methods=["GET"])


LOG = Load(f"{TASK}/log.txt", Right.VIEW, read, TaskParams, TaskScreen)
ATTACHMENT = 'attachment; filename="task.log"'
SCREEN = Screen(Load(TASK, Right.VIEW, read, TaskParams, TaskScreen), "task.html")
