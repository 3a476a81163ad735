"""The note of a run, or of a task of it: write, change, remove."""

from tidegate.daemon import notes
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.paths import RunPath, TaskPath
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.daemon.web.form import Field, Preview
from tidegate.daemon.web.pages.run_forms import RUN, TASK
from tidegate.daemon.web.rendering import run_url, task_url
from tidegate.daemon.web.screen import Form
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notes import note_on
from tidegate.schemas.queries.run_pages import RunRow


class Text(Params, frozen=True):
    """The text of a note; empty: the note is removed."""

    content: str = ""


async def preview_run(db: Db, call: Call[RunPath]) -> Preview:
    return await _preview(db, await find_run(db, call.params.dag_id, call.params.run_id), None)


async def preview_task(db: Db, call: Call[TaskPath]) -> Preview:
    run = await find_run(db, call.params.dag_id, call.params.run_id)
    return await _preview(db, run, (await find_task(db, run, call.params.task_id)).label)


async def _preview(db: Db, run: RunRow, task: str | None) -> Preview:
    before = await note_on(db, run.dag_id, run.run_id, task)
    hint = f"at most {notes.LONGEST} characters; an empty one removes the note"
    return Preview(
        title=f"Note on {task or run.dag_id} {'of ' if task else ''}{run.run_id}",
        says=["All users that may view this page read it. The audit log keeps what it said before."],
        back=_address(run.dag_id, run.run_id, task),
        action=_address(run.dag_id, run.run_id, task, "note"),
        button="Save the note",
        fields=[Field(name="content", label="Note", kind="textarea", value=before.content if before else "", hint=hint)],
    )


async def write_run(call: Call[RunPath], body: Text) -> str:
    return await _write(call.params, None, call, body)


async def write_task(call: Call[TaskPath], body: Text) -> str:
    return await _write(call.params, call.params.task_id, call, body)


async def _write(path: RunPath, task: str | None, call: Call[RunPath] | Call[TaskPath], body: Text) -> str:
    await notes.set_note(call.database, call.caller.username, path.dag_id, path.run_id, task, body.content)
    return _address(path.dag_id, path.run_id, task)


def _address(dag_id: str, run_id: str, task: str | None, *below: str) -> str:
    """The page of the run, or of its task, or one below it."""
    return task_url(dag_id, run_id, task, *below) if task else run_url(dag_id, run_id, *below)


OF_RUN = Read(f"{RUN}/note", Right.EDIT, preview_run, RunPath, Preview)
OF_TASK = Read(f"{TASK}/note", Right.EDIT, preview_task, TaskPath, Preview)

FORMS = (
    Form.of(OF_RUN, write_run, RunPath, Text, does="wrote a note", keeps_texts=True),
    Form.of(OF_TASK, write_task, TaskPath, Text, does="wrote a note", keeps_texts=True),
)
