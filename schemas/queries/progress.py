"""What surrounds a run, read for people who ask why it does not go on."""

from datetime import datetime

import msgspec

from tidegate.schemas.explain.facts import RunFacts
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import RunView

_SQL = load("progress")


class AttemptRow(msgspec.Struct, frozen=True):
    """An attempt under way; `since` it has run, or has waited for its backend."""

    task_index: int
    backend: str
    host: str | None
    since: datetime


async def run_facts(db: Db, dag_id: str, run_id: str) -> RunFacts:
    """Of a run that exists."""
    (row,) = await db.fetch(_SQL["run_facts"], dag_id, run_id, db.now)
    columns = len(RunView.__struct_fields__)
    return RunFacts(run_view(row[:columns]), *row[columns:])


async def attempts_under_way(db: Db, dag_run_id: int) -> list[AttemptRow]:
    return [AttemptRow(*row) for row in await db.fetch(_SQL["newest_attempts"], dag_run_id)]


async def still_attempted(db: Db, dag_run_id: int) -> frozenset[int]:
    """The indices of tasks that wait for slots although an attempt of theirs has not ended."""
    return frozenset(row[0] for row in await db.fetch(_SQL["still_attempted"], dag_run_id))
