"""Notes of users on runs and tasks."""

from datetime import datetime

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("notes")


class Note(msgspec.Struct, frozen=True):
    """A note on a task, or on the run if `task` is None."""

    task: str | None
    content: str
    written_at: datetime
    written_by: str


async def lock_run(db: Db, dag_id: str, run_id: str) -> int | None:
    """The number of a run, whose notes nothing else changes until the end of the transaction. None for an unknown run."""
    rows = await db.fetch(_SQL["lock_run"], dag_id, run_id)
    return rows[0]["id"] if rows else None


async def of_run(db: Db, dag_id: str, run_id: str) -> list[Note]:
    """The notes of a run: first the one on the run, then those on its tasks by name."""
    return await _of_run(db, dag_id, run_id, None)


async def note_on(db: Db, dag_id: str, run_id: str, task: str | None) -> Note | None:
    """The note on a task of a run, or on the run if `task` is None; None without one."""
    found = await _of_run(db, dag_id, run_id, task or "")
    return found[0] if found else None


async def _of_run(db: Db, dag_id: str, run_id: str, label: str | None) -> list[Note]:
    return [Note(*row) for row in await db.fetch(_SQL["of_run"], dag_id, run_id, label)]


async def write(db: Db, run: int, task: str | None, content: str, user: str) -> None:
    await db.execute(_SQL["write"], run, task, content, user)


async def remove(db: Db, run: int, task: str | None) -> None:
    await db.execute(_SQL["remove"], run, task)
