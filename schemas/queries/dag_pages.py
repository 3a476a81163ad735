"""Reads DAGs and their files for people."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("dag_pages")


class DagRow(msgspec.Struct, frozen=True):
    """A line of the list of DAGs. `pending` counts events waiting for it; `import_error` is about its file."""

    dag_id: str
    path: str
    is_paused: bool
    is_stale: bool
    version: int
    schedule: Any
    together: bool
    running: int
    queued: int
    pending: int
    import_error: str | None


class ImportErrorRow(msgspec.Struct, frozen=True):
    """A DAG file that cannot be used as it is."""

    path: str
    line: int | None
    reason: str
    at: datetime


class NoteRow(msgspec.Struct, frozen=True):
    """An outcome of a DAG's schedule other than a run."""

    kind: str
    reason: str
    first_at: datetime
    last_at: datetime
    times: int


async def list_dags(db: Db, dag_id: str | None = None) -> list[DagRow]:
    """By id; all of them, or the one named."""
    return [DagRow(*row) for row in await db.fetch(_SQL["list_dags"], dag_id)]


async def list_notes(db: Db, dag_id: str, limit: int) -> list[NoteRow]:
    """The outcomes of a DAG's schedule other than runs, newest first."""
    return [NoteRow(*row) for row in await db.fetch(_SQL["list_notes"], dag_id, limit)]


async def list_import_errors(db: Db) -> list[ImportErrorRow]:
    """By path."""
    return [ImportErrorRow(*row) for row in await db.fetch(_SQL["list_import_errors"])]
