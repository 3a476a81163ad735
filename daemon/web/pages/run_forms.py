"""Clear, cancel and mark a run, and mark a task."""

from typing import Literal

from tidegate.daemon import runs
from tidegate.daemon.gateway.endpoint import Act, Call, Load, Nothing, Params, Read
from tidegate.daemon.gateway.paths import RunPath, TaskPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.clearing import cleared_text
from tidegate.daemon.read_model.clearing import preview as preview_clearing
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.daemon.web.form import Field, Preview, checkbox
from tidegate.daemon.web.rendering import run_url, task_url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, RunState, TaskState
from tidegate.schemas.text import utc

RUN = "/dags/{dag_id}/runs/{run_id}"
TASK = f"{RUN}/tasks/{{task_id}}"


class State(Params, frozen=True):
    """The state to set."""

    state: Literal["success", "failed"]


class ClearOptions(Params, frozen=True, kw_only=True):
    """What a clearing covers: all tasks, or one and the tasks after it."""

    task: str | None = None
    upstream: bool = False
    no_downstream: bool = False
    only_failed: bool = False
    newest_version: bool = False


class ClearParams(ClearOptions, frozen=True, kw_only=True):
    """A run, and what of it is cleared."""

    dag_id: str
    run_id: str


def request_of(user: str, dag_id: str, run_id: str, options: ClearOptions) -> ClearRequested:
    return ClearRequested(
        dag_id=dag_id,
        run_id=run_id,
        task_ids=(options.task,) if options.task else (),
        upstream=options.upstream,
        downstream=not options.no_downstream,
        only_failed=options.only_failed,
        newest=options.newest_version,
        user=user,
    )


async def preview_clear(call: Call[ClearParams]) -> Preview:
    """What would run again, by the handler's own decision. It takes the locks of the decision, so the standby cannot read it."""
    params = call.params
    request = request_of(call.caller.username, params.dag_id, params.run_id, params)
    request, cleared = await call.database.run(preview_clearing, request)
    run_id = request.run_id or params.run_id
    rows = [(run.run_id, run.state, ", ".join(run.tasks)) for run in cleared]
    return Preview(
        title=f"Clear {params.dag_id} {run_id}",
        says=[f"{cleared_text(cleared)} will run again. Active attempts are killed; earlier tries stay on record."]
        if rows
        else ["Nothing is cleared by these options."],
        back=run_url(params.dag_id, run_id),
        action=run_url(params.dag_id, run_id, "clear"),
        button=f"Clear {cleared_text(cleared)}" if rows else "",
        titles=("Run", "Its state", "Tasks that run again"),
        rows=rows,
        fields=_fields(params, is_hidden=True),
        choices=_fields(params, is_hidden=False),
        is_destructive=True,
    )


def _fields(options: ClearOptions, *, is_hidden: bool) -> list[Field]:
    task = Field(name="task", label="Task", value=options.task or "", hint="empty: all tasks")
    boxes = (
        checkbox("upstream", "also the tasks before it", is_set=options.upstream),
        checkbox("no_downstream", "not the tasks after it", is_set=options.no_downstream),
        checkbox("only_failed", "only tasks that failed, or whose upstream did", is_set=options.only_failed),
        checkbox("newest_version", "by the newest version of the DAG, unless the run is running", is_set=options.newest_version),
    )
    if not is_hidden:
        return [task, *boxes]
    return [Field(name=field.name, label="", kind="hidden", value=field.value) for field in (task, *boxes) if field.value]


async def clear(call: Call[RunPath], body: ClearOptions) -> str:
    await runs.clear(call.database, request_of(call.caller.username, call.params.dag_id, call.params.run_id, body))
    return run_url(call.params.dag_id, call.params.run_id)


async def preview_cancel(db: Db, call: Call[RunPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    ended = run.state in RUN_ENDED
    does = f"Its active attempts are killed, {run.unfinished} unfinished tasks are skipped, and the run fails."
    return Preview(
        title=f"Cancel {run.dag_id} {run.run_id}",
        says=[f"The run has ended already: {run.state}." if ended else does],
        back=run_url(run.dag_id, run.run_id),
        action=run_url(run.dag_id, run.run_id, "cancel"),
        button="" if ended else "Cancel the run",
        is_destructive=True,
    )


async def cancel(call: Call[RunPath], _body: Nothing) -> str:
    await runs.cancel(call.database, call.caller.username, call.params.dag_id, call.params.run_id)
    return run_url(call.params.dag_id, call.params.run_id)


async def preview_mark(db: Db, call: Call[RunPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    kills = f"{run.unfinished} of {run.tasks} tasks have not ended: active attempts are killed."
    return Preview(
        title=f"Mark {run.dag_id} {run.run_id}",
        says=[f"The run is {run.state}. {kills}", "success: all its tasks succeed. failed: it fails. Outlets are not updated."],
        back=run_url(run.dag_id, run.run_id),
        action=run_url(run.dag_id, run.run_id, "mark"),
        button="Mark the run",
        fields=[_states(run.state)],
        is_destructive=True,
    )


def _states(state: str) -> Field:
    """The states to choose from; first the one that the run or the task has not."""
    other = "failed" if state == "success" else "success"
    return Field(name="state", label="State", kind="select", value=other, options=("success", "failed"))


async def mark(call: Call[RunPath], body: State) -> str:
    await runs.mark(call.database, call.caller.username, call.params.dag_id, call.params.run_id, RunState(body.state))
    return run_url(call.params.dag_id, call.params.run_id)


async def preview_mark_task(db: Db, call: Call[TaskPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    task = await find_task(db, run, call.params.task_id)
    since = f" since {utc(task.start_date)}" if task.start_date else ""
    return Preview(
        title=f"Mark {task.label} of {run.run_id}",
        says=[f"The task is {task.state}{since}. An active attempt is killed, and the tasks after it are decided again."],
        back=task_url(run.dag_id, run.run_id, task.label),
        action=task_url(run.dag_id, run.run_id, task.label, "mark"),
        button="Mark the task",
        fields=[_states(task.state)],
        is_destructive=True,
    )


async def mark_task(call: Call[TaskPath], body: State) -> str:
    path = call.params
    await runs.mark_task(call.database, call.caller.username, path.dag_id, path.run_id, path.task_id, TaskState(body.state))
    return task_url(path.dag_id, path.run_id, path.task_id)


FORMS = (
    Form(
        Load(f"{RUN}/clear", Right.EDIT, preview_clear, ClearParams, Preview),
        Act("POST", f"{RUN}/clear", Right.EDIT, clear, RunPath, ClearOptions, str),
    ),
    Form(
        Read(f"{RUN}/cancel", Right.EDIT, preview_cancel, RunPath, Preview),
        Act("POST", f"{RUN}/cancel", Right.EDIT, cancel, RunPath, Nothing, str),
    ),
    Form(
        Read(f"{RUN}/mark", Right.EDIT, preview_mark, RunPath, Preview),
        Act("POST", f"{RUN}/mark", Right.EDIT, mark, RunPath, State, str),
    ),
    Form(
        Read(f"{TASK}/mark", Right.EDIT, preview_mark_task, TaskPath, Preview),
        Act("POST", f"{TASK}/mark", Right.EDIT, mark_task, TaskPath, State, str),
    ),
)
