"""Notes on runs and tasks: what the command line, the API and the pages share. The caller has checked the right."""

from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.lookup import find_run, find_task
from tidegate.schemas.effect.audit import OF_DAG, object_name
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.queries import audit_log, notes
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notes import Note

LONGEST = 2000


async def set_note(database: Database, user: str, dag_id: str, run_id: str, task_id: str | None, content: str) -> list[Note]:
    """Write the note of a run, or of a task; an empty content removes it. Returns all notes of the run.

    Raises RequestError for a text that is too long, and NotFoundError for an unknown run or task.
    """
    return await database.run(_set_note, user, dag_id, run_id, task_id, checked(content))


def checked(content: str) -> str:
    """The text without spaces around it. Raises RequestError."""
    text = content.replace("\r\n", "\n").strip()
    if len(text) > LONGEST:
        raise RequestError(f"a note has at most {LONGEST} characters; this one has {len(text)}")
    if "\0" in text:
        raise RequestError("a note cannot contain the character NUL")
    return text


async def _set_note(db: Db, user: str, dag_id: str, run_id: str, task_id: str | None, content: str) -> list[Note]:
    run = await find_run(db, dag_id, run_id)
    if task_id is not None:
        await find_task(db, run, task_id)
    number = await notes.lock_run(db, run.dag_id, run.run_id)
    if number is None:
        raise NotFoundError(f"run {run.run_id!r} of DAG {dag_id!r} was deleted meanwhile")
    known = await notes.of_run(db, dag_id, run.run_id)
    before = next((note.content for note in known if note.task == task_id), "")
    if before == content:
        return known
    await (notes.write(db, number, task_id, content, user) if content else notes.remove(db, number, task_id))
    details = {"note": content or None, "note_before": before or None}
    name = object_name(OF_DAG, dag_id=run.dag_id, run_id=run.run_id, task_id=task_id)
    await audit_log.record(db, user, "wrote a note" if content else "removed a note", name, details)
    return await notes.of_run(db, dag_id, run.run_id)
