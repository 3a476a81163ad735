"""Clear, cancel and mark a run, and mark a task."""

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.daemon import runs
from tidegate.daemon.api.runs import Mark
from tidegate.daemon.audit_entry import clearing_text
from tidegate.daemon.gateway.endpoint import Call, Load, Nothing, Params, Read
from tidegate.daemon.gateway.paths import RunPath, TaskPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.clearing import ClearedRun, cleared_text, consequence, consumed_text
from tidegate.daemon.read_model.clearing import preview as preview_clearing
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.daemon.read_model.version import newer_version, version_text
from tidegate.daemon.web.form import Field, Preview, checkbox, descriptions, sentence
from tidegate.daemon.web.rendering import run_url, task_url, url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import ClearOptions, ClearRequested, options_of
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import VersionRow
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, RunState, TaskState
from tidegate.schemas.text import counted, utc

RUN = "/dags/{dag_id}/runs/{run_id}"
TASK = f"{RUN}/tasks/{{task_id}}"

SHOWN_CONSUMERS = 10
"""The most runs of consumers that the form names."""


class ClearChoices(ClearOptions, Params, frozen=True, kw_only=True):
    """What a clearing covers: all tasks, or one task or instance and the tasks after it."""

    task: str | None = None
    no_downstream: bool = False


class ClearParams(ClearChoices, frozen=True, kw_only=True):
    """A run, and what of it is cleared."""

    dag_id: str
    run_id: str


def request_of(dag_id: str, run_id: str, choices: ClearChoices) -> ClearRequested:
    return ClearRequested(
        dag_id=dag_id,
        run_id=run_id,
        task_ids=(choices.task,) if choices.task else (),
        downstream=not choices.no_downstream,
        **options_of(choices),
    )


async def preview_clear(call: Call[ClearParams]) -> Preview:
    """What would run again, by the handler's own decision. It takes the locks of the decision, so the standby cannot read it."""
    params = call.params
    request = request_of(params.dag_id, params.run_id, params)
    return await call.database.run(_preview_clear, request, params)


async def _preview_clear(db: Db, request: ClearRequested, options: ClearParams) -> Preview:
    run = await find_run(db, options.dag_id, options.run_id)
    newest = await newer_version(db, run)
    says, rows, button = await _cleared(db, msgspec.structs.replace(request, run_id=run.run_id), run, newest)
    return Preview(
        title=f"Clear {run.dag_id} {run.run_id}",
        says=[*says, "Nothing has changed yet."],
        back=run_url(run.dag_id, run.run_id),
        action=run_url(run.dag_id, run.run_id, "clear"),
        button=button,
        titles=("Run", "Its state", "Tasks that run again"),
        rows=rows,
        fields=_fields(options, newest),
        has_choices=True,
        is_destructive=True,
    )


async def _cleared(
    db: Db, request: ClearRequested, run: RunRow, newest: VersionRow | None
) -> tuple[list[str], list[tuple[str, str, str]], str]:
    """The sentences, the rows and the button; without rows and button where the options clear nothing."""
    try:
        _, cleared = await preview_clearing(db, msgspec.structs.replace(request, backfill_id=0))
    except RequestError as error:
        return [sentence(error)], [], ""
    number = newest.number if newest and request.newest_version else run.version
    by = version_text(run.dag_id, number, newest.number if newest else run.version)
    says = f"{cleared_text(cleared)} will run again by {by}. Active attempts are killed; earlier tries stay on record."
    return (
        [says, *_consumed(cleared, request)],
        [(each.run_id, each.state, ", ".join(each.tasks)) for each in cleared],
        f"Clear {cleared_text(cleared)}",
    )


def _consumed(cleared: Sequence[ClearedRun], options: ClearOptions) -> list[str]:
    """The runs that consumed what is cleared, and what becomes of them."""
    if not (text := consumed_text(cleared)):
        return []
    consumers = [f"{it.dag_id} {it.run_id} ({it.state})" for run in cleared for it in run.consumers]
    first = ", ".join(consumers[:SHOWN_CONSUMERS]) + (", and others" if len(consumers) > SHOWN_CONSUMERS else "")
    return [text, f"{first}.", consequence(options)]


def _fields(choices: ClearChoices, newest: VersionRow | None) -> list[Field]:
    """The boxes of the options have the words of the command. The newest version is named."""
    fields = [
        Field(
            name="task", label="Task", value=choices.task or "", hint="empty: all tasks; load[3]: an instance of a mapped task"
        ),
        checkbox("no_downstream", "Do not clear the tasks after these.", is_set=choices.no_downstream),
    ]
    labels = descriptions(ClearOptions)
    if newest is None:
        labels.pop("newest_version")
    else:
        labels["newest_version"] = f"By version {newest.number}, the newest of the DAG, since {utc(newest.created_at)}."
    return [*fields, *(checkbox(name, label, is_set=getattr(choices, name)) for name, label in labels.items())]


def _clearing_text(body: ClearOptions) -> str:
    return clearing_text(only_failed=body.only_failed, newest_version=body.newest_version)


async def clear(call: Call[RunPath], body: ClearChoices) -> str:
    request = request_of(call.params.dag_id, call.params.run_id, body)
    cleared = await runs.clear(call.database, call.settings, call.caller, request)
    id_ = cleared[0].backfill_id if cleared else None
    return run_url(call.params.dag_id, call.params.run_id) if id_ is None else url("backfills", id_)


async def preview_cancel(db: Db, call: Call[RunPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    ended = run.state in RUN_ENDED
    does = _ends(await run_pages.states_of(db, run.dag_id, run.run_id))
    return Preview(
        title=f"Cancel {run.dag_id} {run.run_id}",
        says=[f"The run has ended already: {run.state}." if ended else does],
        back=run_url(run.dag_id, run.run_id),
        action=run_url(run.dag_id, run.run_id, "cancel"),
        button="" if ended else "Cancel the run",
        is_destructive=True,
    )


def _ends(states: Mapping[str, int]) -> str:
    """What a cancel does to the tasks of a run, by their number in each state."""
    active = sum(states.get(state, 0) for state in TASK_ACTIVE)
    waiting = sum(number for state, number in states.items() if state not in TASK_ENDED) - active
    fails = counted(active, "active task fails, and its attempt is killed", "active tasks fail, and their attempts are killed")
    return f"{fails}; {counted(waiting, 'waiting task is skipped', 'waiting tasks are skipped')}, and the run fails."


async def cancel(call: Call[RunPath], _body: Nothing) -> str:
    await runs.cancel(call.database, call.caller.username, call.params.dag_id, call.params.run_id)
    return run_url(call.params.dag_id, call.params.run_id)


async def preview_mark(db: Db, call: Call[RunPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    kills = f"{run.unfinished} of {counted(run.tasks, 'task has', 'tasks have')} not ended: active attempts are killed."
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
    """The states to choose from, which preselects another one than that of the run or the task."""
    other = "failed" if state == "success" else "success"
    return Field(name="state", label="State", kind="select", value=other, options=("success", "failed"))


async def mark(call: Call[RunPath], body: Mark) -> str:
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


async def mark_task(call: Call[TaskPath], body: Mark) -> str:
    path = call.params
    await runs.mark_task(call.database, call.caller.username, path.dag_id, path.run_id, path.task_id, TaskState(body.state))
    return task_url(path.dag_id, path.run_id, path.task_id)


CLEAR = Load(f"{RUN}/clear", Right.EDIT, preview_clear, ClearParams, Preview)
CANCEL = Read(f"{RUN}/cancel", Right.EDIT, preview_cancel, RunPath, Preview)
MARK = Read(f"{RUN}/mark", Right.EDIT, preview_mark, RunPath, Preview)
MARK_TASK = Read(f"{TASK}/mark", Right.EDIT, preview_mark_task, TaskPath, Preview)

FORMS = (
    Form.of(CLEAR, clear, RunPath, ClearChoices, does="cleared tasks", says=_clearing_text),
    Form.of(CANCEL, cancel, RunPath, Nothing, does="cancelled a run"),
    Form.of(MARK, mark, RunPath, Mark, does="marked a run"),
    Form.of(MARK_TASK, mark_task, TaskPath, Mark, does="marked a task"),
)
