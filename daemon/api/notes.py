"""Notes on runs and tasks."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon import notes
from tidegate.daemon.gateway.endpoint import Act, Call, Nothing, Params
from tidegate.daemon.gateway.paths import RunPath, TaskPath
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.permissions import Right
from tidegate.schemas.queries.notes import Note


class NewNote(Params, frozen=True):
    """The text of a note."""

    content: Annotated[str, Meta(min_length=1, max_length=notes.LONGEST)]


async def note_run(call: Call[RunPath], body: NewNote) -> list[Note]:
    """Write the note of a run, in the place of the one before."""
    return await _set(call, None, _written(body))


async def remove_run_note(call: Call[RunPath], _body: Nothing) -> list[Note]:
    """Remove the note of a run."""
    return await _set(call, None, "")


async def note_task(call: Call[TaskPath], body: NewNote) -> list[Note]:
    """Write the note of a task of a run, in the place of the one before."""
    return await _set(call, call.params.task_id, _written(body))


async def remove_task_note(call: Call[TaskPath], _body: Nothing) -> list[Note]:
    """Remove the note of a task of a run."""
    return await _set(call, call.params.task_id, "")


def _written(body: NewNote) -> str:
    """Raises InvalidError for a text of spaces alone, which would remove the note."""
    if not notes.checked(body.content):
        raise InvalidError("content: the note is blank; DELETE removes the note")
    return body.content


async def _set(call: Call[RunPath] | Call[TaskPath], task_id: str | None, content: str) -> list[Note]:
    path = call.params
    return await notes.set_note(call.database, call.caller.username, path.dag_id, path.run_id, task_id, content)


RUN = "/dags/{dag_id}/runs/{run_id}/note"
TASK = "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/note"

ENDPOINTS = (
    Act("PUT", RUN, Right.EDIT, note_run, RunPath, NewNote, list[Note], resumes=True, does="wrote a note"),
    Act(
        "DELETE",
        RUN,
        Right.EDIT,
        remove_run_note,
        RunPath,
        Nothing,
        list[Note],
        resumes=True,
        does="removed a note",
    ),
    Act("PUT", TASK, Right.EDIT, note_task, TaskPath, NewNote, list[Note], resumes=True, does="wrote a note"),
    Act(
        "DELETE",
        TASK,
        Right.EDIT,
        remove_task_note,
        TaskPath,
        Nothing,
        list[Note],
        resumes=True,
        does="removed a note",
    ),
)
