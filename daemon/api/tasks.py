"""Task instances: their logs and results, and why one does not run."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidegate.daemon import runs
from tidegate.daemon.api.runs import Mark
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Load, Read
from tidegate.daemon.gateway.lists import DagId, Keyset, Listed, RunId
from tidegate.daemon.gateway.paths import TaskPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.log_search import LogMatches
from tidegate.daemon.read_model.logs import Encoding, Log, LogReader, LogRequest
from tidegate.daemon.read_model.lookup import find_run
from tidegate.daemon.read_model.results import read_result
from tidegate.daemon.read_model.why_not import TaskInWords, read_task_why_not, task_in_words
from tidegate.schemas.graph import is_removed
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import IndexedTask, RunRow, RunTaskRow
from tidegate.schemas.state import TaskState

MapIndex = Annotated[int, Meta(ge=0, lt=2**31)]
Index = Annotated[int, Meta(ge=-(2**31), lt=2**31)]

IN_ORDER = Keyset("tasks", ("row.task_id", "row.map_index", "index"), (str, MapIndex | None, Index))

Try = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]

LOG_BYTES = 1 << 20
"""About the most bytes of a log in an answer."""


class TaskList(Listed, frozen=True, kw_only=True):
    """The tasks of a run, those in a state. A cursor belongs to its run, also where the path says `latest`."""

    dag_id: DagId
    run_id: RunId
    state: Annotated[TaskState | None, Meta(description="Only tasks in this state.")] = None


class LogQuery(TaskPath, frozen=True):
    """A part of the log of a task."""

    try_number: Annotated[Try | None, Meta(description="Of this try; without it of the last one.")] = None
    offset: Annotated[Offset | None, Meta(description="From this byte on; without it the end of the log.")] = None
    encoding: Annotated[
        Encoding, Meta(description="`base64` keeps each byte; in `text`, bytes that are not UTF-8 are replaced.")
    ] = "text"
    follow: Annotated[bool, Meta(description="The log is empty before the try begins, which is refused otherwise.")] = False


class LogSearch(TaskPath, frozen=True):
    """Lines of the log of a task."""

    text: Annotated[str, Meta(min_length=1, max_length=200, description="In the line; ASCII letters of either case are equal.")]
    try_number: Annotated[Try | None, Meta(description="Of this try; without it of the last one.")] = None
    offset: Annotated[Offset, Meta(description="From this byte on.")] = 0


async def list_tasks(db: Db, call: Call[TaskList]) -> Page[RunTaskRow]:
    """List the tasks of a run, each after the tasks it waits for."""
    page = await tasks_page(db, await _run(db, call), call.params)
    return Page([task.row for task in page.items], page.next_cursor)


async def tasks_page(db: Db, run: RunRow, params: TaskList) -> Page[IndexedTask]:
    """The tasks of a run with their indexes. Raises InvalidError for a cursor that is none of it."""
    params = msgspec.structs.replace(params, run_id=run.run_id)
    after = await _index(db, run, IN_ORDER.position(params))
    key, limit = (run.dag_id, run.run_id), params.limit + 1
    return IN_ORDER.page(await run_pages.page_of_tasks(db, *key, after=after, limit=limit, state=params.state), params)


async def _index(db: Db, run: RunRow, key: tuple[Any, ...] | None) -> int | None:
    """The index of the task now, which moves with the version of the run unless the task is removed."""
    if key is None:
        return None
    task_id, map_index, index = key
    found = index if is_removed(index) else await run_pages.index_of(db, run, task_id, map_index)
    if found is None:
        raise InvalidError(f"cursor: the run has lost the task {task_id!r} of the earlier page; leave it out to begin again")
    return found


async def task_log(call: Call[LogQuery]) -> Log:
    """Read what a try of a task wrote to stdout and stderr, a mebibyte at a time. Only on the host where it ran."""
    run, params = await call.service.reader.run(_run, call), call.params
    request = LogRequest(run.dag_id, run.run_id, params.task_id, params.try_number)
    reader = LogReader(call.settings, call.service.reader, request, call.service.backends)
    return await reader.document(LOG_BYTES, params.offset, params.encoding, is_followed=params.follow)


async def search_log(call: Call[LogSearch]) -> LogMatches:
    """Find lines in what a try of a task wrote: at most 50, among 32 mebibytes. Only on the host where it ran."""
    run, params = await call.service.reader.run(_run, call), call.params
    request = LogRequest(run.dag_id, run.run_id, params.task_id, params.try_number)
    return await LogReader(call.settings, call.service.reader, request, call.service.backends).matches(params.text, params.offset)


async def task_result(db: Db, call: Call[TaskPath]) -> Any:
    """Read the result that a task returned."""
    return await read_result(db, await _run(db, call), call.params.task_id)


async def why_not_task(db: Db, call: Call[TaskPath]) -> TaskInWords:
    """Explain why a task does not run: the state of each gate, and the change that opens it."""
    return task_in_words(await read_task_why_not(db, await _run(db, call), call.params.task_id, call.settings))


async def mark_task(call: Call[TaskPath], body: Mark) -> RunTaskRow:
    """Set a task to success or failed. An active attempt is killed, and the tasks after it are decided again."""
    params = call.params
    user, state = call.caller.username, TaskState(body.state)
    return await runs.mark_task(call.database, user, params.dag_id, params.run_id, params.task_id, state)


async def _run(db: Db, call: Call[Any]) -> RunRow:
    return await find_run(db, call.params.dag_id, call.params.run_id)


RUN = "/dags/{dag_id}/runs/{run_id}"

ENDPOINTS = (
    Read(f"{RUN}/tasks", Right.VIEW, list_tasks, TaskList, Page[RunTaskRow], is_fresh=True),
    Load(f"{RUN}/tasks/{{task_id}}/log", Right.VIEW, task_log, LogQuery, Log),
    Load(f"{RUN}/tasks/{{task_id}}/log/matches", Right.VIEW, search_log, LogSearch, LogMatches),
    Read(f"{RUN}/tasks/{{task_id}}/result", Right.VIEW, task_result, TaskPath, Any),
    Read(f"{RUN}/tasks/{{task_id}}/why-not", Right.VIEW, why_not_task, TaskPath, TaskInWords),
    Act(
        "POST",
        f"{RUN}/tasks/{{task_id}}/mark",
        Right.EDIT,
        mark_task,
        TaskPath,
        Mark,
        RunTaskRow,
        resumes=True,
        does="marked a task",
    ),
)
