"""Reads the runs and tasks of a DAG as a grid, its usual durations, and its versions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tidegate.schemas.graph import MAX_TASKS, element_index
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunStateName, RunTypeName, TaskStateName
from tidegate.schemas.text import span
from tidegate.schemas.timetable.wallclock import days_of_year

_SQL = load("grid")


class GridRun(msgspec.Struct, frozen=True):
    """A column of the grid. `order_at` is the logical date of the run, or its earliest start."""

    id: int
    run_id: str
    run_type: RunTypeName
    state: RunStateName
    start_date: datetime | None
    end_date: datetime | None
    order_at: datetime


class GridCell(msgspec.Struct, frozen=True):
    """A task in a run. A mapped task counts its instances, and how many of them succeeded."""

    state: TaskStateName
    instances: int
    succeeded: int
    try_number: int


class RunCells(NamedTuple):
    """The tasks of a run, and its mapped tasks, in columns; None for a run without any."""

    id: int
    task_ids: Sequence[str] | None
    states: Sequence[str] | None
    tries: Sequence[int] | None
    mapped_ids: Sequence[str] | None
    mapped_states: Sequence[str] | None
    instances: Sequence[int] | None
    succeeded: Sequence[int] | None
    mapped_tries: Sequence[int] | None

    def by_task(self) -> Mapping[str, GridCell]:
        """The cells by the ids of their tasks."""
        found = dict(zip(self.task_ids or (), map(_plain_cell, self.states or (), self.tries or ()), strict=True))
        for task_id, state, instances, succeeded, tries in self._mapped:
            found[task_id] = _mapped_cell(found.get(task_id), state, instances, succeeded, tries)
        return found

    @property
    def _mapped(self) -> Iterable[tuple[str, str, int, int, int]]:
        columns = self.mapped_ids, self.mapped_states, self.instances, self.succeeded, self.mapped_tries
        return zip(*(column or () for column in columns), strict=True)


class Usual(msgspec.Struct, frozen=True):
    """How long the last successful runs took, in seconds: a tenth took less than `low_s`, a tenth more than `high_s`."""

    low_s: float
    median_s: float
    high_s: float
    runs: int

    @property
    def text(self) -> str:
        """`3.9s to 12s`; `3.9s` where both are that."""
        return " to ".join(dict.fromkeys((span(self.low_s), span(self.high_s))))


class VersionRow(msgspec.Struct, frozen=True):
    """A version of a DAG, and the file that it came from."""

    number: int
    created_at: datetime
    path: str
    digest: str


class StoredVersion(msgspec.Struct, frozen=True):
    """A version with the source of its file, and its serialised form, which this version of Tidegate may be unable to read."""

    number: int
    created_at: datetime
    path: str
    source: str
    spec: Any


class Place(NamedTuple):
    """A place in the order of a DAG's runs."""

    order_at: datetime
    id: int


async def runs_before(db: Db, dag_id: str, place: Place | None, limit: int) -> list[GridRun]:
    """The last runs before a place, or of all; newest first."""
    order_at, id_ = place or (None, None)
    return [GridRun(*row) for row in await db.fetch(_SQL["runs_before"], dag_id, order_at, id_, limit)]


async def runs_after(db: Db, dag_id: str, place: Place, limit: int) -> list[GridRun]:
    """The first runs after a place, oldest first."""
    return [GridRun(*row) for row in await db.fetch(_SQL["runs_after"], dag_id, *place, limit)]


async def cells(
    db: Db, run_ids: Sequence[int], task_ids: Sequence[str], positions: range = range(MAX_TASKS)
) -> Mapping[int, Mapping[str, GridCell]]:
    """By run and task, the tasks that the runs have at these positions of their versions."""
    first, until = positions.start, positions.stop
    indices = (first, until, element_index(first, 0), element_index(until, 0))
    rows = await db.fetch(_SQL["cells"], list(run_ids), list(task_ids), *indices)
    return {row[0]: RunCells(*row).by_task() for row in rows}


@lru_cache(maxsize=1024)
def _plain_cell(state: str, try_number: int) -> GridCell:
    """A task that is not mapped. The cells of a page are few different ones."""
    return GridCell(state, 0, 0, try_number)


def _mapped_cell(of_all: GridCell | None, state: str, instances: int, succeeded: int, tries: int) -> GridCell:
    """`of_all` is the task itself, beside its instances."""
    if of_all is None:
        return GridCell(state, instances, succeeded, tries)
    return GridCell(of_all.state, instances, succeeded, max(tries, of_all.try_number))


async def usual(db: Db, dag_id: str) -> Usual | None:
    """The usual duration of the runs of a DAG; None before the first successful one."""
    return (await usual_of(db, [dag_id])).get(dag_id)


async def usual_of(db: Db, dag_ids: Collection[str]) -> Mapping[str, Usual]:
    """By DAG, as `usual`."""
    rows = await db.fetch(_SQL["usual"], list(dag_ids))
    return {dag_id: Usual(seconds[0], seconds[1], seconds[2], runs) for dag_id, seconds, runs in rows}


async def range_of_runs(db: Db, dag_id: str) -> tuple[datetime | None, datetime | None]:
    """The times of the first and the last run."""
    ((first, last),) = await db.fetch(_SQL["range"], dag_id)
    return first, last


async def days(db: Db, dag_id: str, year: int, clock: str, limit: int) -> Mapping[date, Mapping[str, int]]:
    """The number of runs by day, in the time zone `clock`, and by state: of the newest `limit` ones of the year.

    The bounds of the days are not those of Postgres, whose time zones may be of another release.
    """
    starts = days_of_year(year, clock)
    return by_day(year, await db.fetch(_SQL["days"], dag_id, starts[0], starts[-1], limit, starts))


def by_day(year: int, rows: Sequence[Any]) -> Mapping[date, Mapping[str, int]]:
    """Counts by day and state, of rows that number the days of the year from 1."""
    found: dict[date, dict[str, int]] = defaultdict(dict)
    for number, state, count in rows:
        found[date(year, 1, 1) + timedelta(days=number - 1)][state] = count
    return found


async def list_versions(db: Db, dag_id: str, limit: int, before: int | None = None) -> list[VersionRow]:
    """The versions of a DAG, newest first; those before a number."""
    return [VersionRow(*row) for row in await db.fetch(_SQL["versions"], dag_id, limit, before)]


async def current_version(db: Db, dag_id: str) -> VersionRow | None:
    """The version of which new runs are; None for an unknown DAG."""
    rows = await db.fetch(_SQL["current_version"], dag_id)
    return VersionRow(*rows[0]) if rows else None


async def version(db: Db, dag_id: str, number: int) -> StoredVersion | None:
    """A version of a DAG; None where the DAG has no such version."""
    rows = await db.fetch(_SQL["version"], dag_id, number)
    return StoredVersion(*rows[0]) if rows else None


async def modules(db: Db, dag_id: str, number: int) -> Mapping[str, str]:
    """By path, the modules that the functions of a version import, and its applications in Python."""
    return {row["path"]: row["source"] for row in await db.fetch(_SQL["modules"], dag_id, number)}
