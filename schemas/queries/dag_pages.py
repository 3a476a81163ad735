"""Reads DAGs, their timetables and their files for people."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.effect.dag import NoteKind
from tidegate.schemas.graph import graph_of
from tidegate.schemas.queries.counting import COUNTED, counted_text
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.read_plan import MAX_RUN_DATES
from tidegate.schemas.state import RunState, RunStateName
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView

if TYPE_CHECKING:
    from asyncpg import Record

_SQL = load("dag_pages")


class DagState(StrEnum):
    """A state of a DAG, and of its last run. A broken one has an import error, and keeps its version before."""

    ACTIVE = "active"
    PAUSED = "paused"
    STALE = "stale"
    HELD = "held"
    BROKEN = "broken"
    FAILED = "failed"
    RUNNING = "running"
    QUEUED = "queued"
    SUCCESS = "success"


class DagRow(msgspec.Struct, frozen=True):
    """A line of the list of DAGs. `pending` 10,001: more than 10,000 pending events; `import_error` is that of its file."""

    dag_id: str
    path: str
    is_paused: bool
    is_stale: bool
    held_since: datetime | None
    hold_reason: str | None
    version: int
    schedule: Any
    together: bool
    running: int
    queued: int
    pending: int
    import_error: str | None
    tags: Sequence[str] = ()

    @property
    def pending_text(self) -> str:
        """The number of pending events for people."""
        return counted_text(self.pending)


class ImportErrorRow(msgspec.Struct, frozen=True):
    """A DAG file with an import error. `dags` names its first DAGs, which keep their last good version."""

    path: str
    line: int | None
    reason: str
    at: datetime
    dags: list[str] = []


class NoteRow(msgspec.Struct, frozen=True):
    """An outcome of a DAG's schedule other than a run."""

    kind: NoteKind
    reason: str
    first_at: datetime
    last_at: datetime
    times: int


class LastRun(msgspec.Struct, frozen=True):
    """One of the last runs of a DAG, in the order of `order_at`: its logical date, or its earliest start."""

    dag_id: str
    run_id: str
    state: RunStateName
    start_date: datetime | None
    end_date: datetime | None
    order_at: datetime


class DagFilter(msgspec.Struct, frozen=True):
    """A filter of DAGs; None matches any. `search` is a part of the id, `tag` one of its tags."""

    search: str | None = None
    tag: str | None = None
    state: DagState | None = None


ALL = DagFilter()


async def list_dags(
    db: Db, dag_id: str | None = None, wanted: DagFilter = ALL, *, after: str | None = None, limit: int | None = None
) -> list[DagRow]:
    """DAGs by id; all, or the one named, or the first `limit` ones after an id that the filter matches."""
    of_run = wanted.state is not None and wanted.state.value in map(str, RunState)
    filters = wanted.tag, wanted.state, of_run
    return [DagRow(*row) for row in await db.fetch(_SQL["list_dags"], dag_id, after, wanted.search, limit, COUNTED, *filters)]


async def list_ids(db: Db, limit: int) -> list[str]:
    """The ids of the first DAGs that are in a DAG file."""
    return [row[0] for row in await db.fetch(_SQL["list_ids"], limit)]


async def last_runs(db: Db, dag_ids: Sequence[str], limit: int) -> Mapping[str, Sequence[LastRun]]:
    """By DAG, its last runs in the order of its grid, the first of them first."""
    found: dict[str, list[LastRun]] = {dag_id: [] for dag_id in dag_ids}
    for row in await db.fetch(_SQL["last_runs"], list(dag_ids), limit):
        found[row[0]].append(LastRun(*row))
    return found


async def list_notes(db: Db, dag_id: str, limit: int) -> list[NoteRow]:
    """The outcomes of a DAG's schedule other than runs, newest first."""
    return [NoteRow(*row) for row in await db.fetch(_SQL["list_notes"], dag_id, limit)]


async def list_import_errors(
    db: Db, search: str | None = None, after: str | None = None, limit: int | None = None
) -> list[ImportErrorRow]:
    """The import errors by path: all, or the first `limit` ones after a path with `search` in their paths."""
    return [ImportErrorRow(*row) for row in await db.fetch(_SQL["list_import_errors"], search, after, limit)]


async def count_import_errors(db: Db) -> int:
    """How many DAG files are broken."""
    return int((await db.fetch(_SQL["count_import_errors"]))[0][0])


async def plans(db: Db, *dag_ids: str) -> Mapping[str, DagView]:
    """The DAGs with a timetable, all or those named, without their tasks, queued runs and pending events.

    DAGs whose version cannot be read are left out.
    """
    rows = await db.fetch(_SQL["plans"], list(dag_ids) or None, MAX_RUN_DATES)
    return {row["dag_id"]: plan for row in rows if (plan := _plan(row))}


def _plan(row: "Record") -> DagView | None:
    """The DAG of a row; None if its version cannot be read."""
    try:
        graph = graph_of(row["version_id"], msgspec.convert(row["head"], DagSpec))
    except msgspec.ValidationError:
        return None
    date, end = row["last_logical_date"], row["last_interval_end"]
    return DagView(
        graph=graph,
        is_paused=row["is_paused"],
        is_stale=row["is_stale"],
        running=0,
        queued=0,
        next_run_id=0,
        timed_since=row["timed_since"],
        last_tick=None if date is None else Tick(date, row["last_interval_start"], end, end),
        run_dates=frozenset(row["taken"]),
    )
