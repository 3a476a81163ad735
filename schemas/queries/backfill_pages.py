"""Backfills and their dates as pages show them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect.audit import OF_DAG, object_name
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import by_day
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import INACTIVE, DateState, RunStateName, TaskState, listing
from tidegate.schemas.timetable.wallclock import days_of_year
from tidegate.schemas.view import TaskKey

_SQL = load("backfill_pages")


class BackfillRow(BackfillView, frozen=True, kw_only=True):
    """A backfill with its user, its times, and counts of its runs and of the tasks of these.

    `waiting` ones of the `running` runs wait for the previous run. The tasks of `unstarted` runs are not known yet. While
    `inactive_dag_id`, its DAG or that of its stage, is paused, stale or held (`dag_state`), it starts no run. `stopped_by`: the
    user that paused or cancelled it. `newest_version` is that of its DAG.
    """

    version: int
    newest_version: int
    relative_fileloc: str
    submitted_at: datetime
    submitted_by: str
    updated_at: datetime
    scheduled_date: datetime | None
    delete_date: datetime | None
    queued: int
    running: int
    waiting: int
    unstarted: int
    tasks: int
    tasks_succeeded: int
    tasks_skipped: int
    tasks_failed: int
    inactive_dag_id: str | None
    dag_state: Annotated[str, listing(("", *INACTIVE))]
    stopped_by: str | None
    stopped_at: datetime | None

    @property
    def dags(self) -> Sequence[str]:
        """The DAGs whose runs it runs. A change of the backfill takes the right to change each of them."""
        return (self.dag_id, *self.stages)

    @property
    def ended(self) -> int:
        """The dates whose runs have ended."""
        return self.succeeded + self.failed + self.cancelled


class PoolShare(msgspec.Struct, frozen=True):
    """The slots that tasks of a backfill hold in a pool, of its `slots`; and the tasks of other runs that wait there.

    `slots` is None for a pool that was deleted.
    """

    pool: str
    held: int
    slots: int | None
    others: int


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG of a cascade, and what became of its dates. `waiting` ones are to run again, `open` ones have not ended."""

    dag_id: str
    dates: int = 0
    waiting: int = 0
    open: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0


class UnendedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that has not ended. `waits_for_past`: it waits for the previous run."""

    task_id: str
    state: TaskState
    pool: str
    waits_for_past: bool = False


class ScheduledTask(NamedTuple):
    """The task of a date that waits for slots of its pool."""

    ordinal: int
    pool: str
    dag_run_id: int
    task_index: int

    @property
    def key(self) -> TaskKey:
        return self.dag_run_id, self.task_index


class DateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A planned date of a backfill, with its run and the version of that, or the reason why it has none.

    `reason` also says why a run failed. `task` is the one of a running run that has come furthest, and not ended.
    """

    ordinal: int
    logical_date: datetime
    state: DateState
    dag_id: str | None
    run_id: str | None
    run_state: RunStateName | None
    version: int | None = None
    reason: str
    task: UnendedTask | None = None


class Pace(NamedTuple):
    """The runs of a backfill that ended since a time, and their tasks."""

    runs: int
    tasks: int
    since: datetime | None


class FailedDate(msgspec.Struct, frozen=True):
    """A failed date with its run, and the first task that failed, if one did."""

    logical_date: datetime
    dag_id: str
    run_id: str
    task: FailedTask | None


async def list_backfills(
    db: Db,
    *,
    ids: Collection[int] | None = None,
    dag_id: str | None = None,
    state: str | None = None,
    deleted: bool = False,
    before: int | None = None,
    limit: int = 1,
) -> list[BackfillRow]:
    """Backfills, newest first; those before one. `ids`: only these."""
    rows = await db.fetch(_SQL["list"], ids, dag_id, state, deleted, limit, before)
    return [_row(dict(row)) for row in rows]


def _row(facts: dict[str, Any]) -> BackfillRow:
    """A run that has ended counts at once, as its tasks do; the clock closes its date a moment later."""
    facts["succeeded"] += facts.pop("ended_succeeded")
    facts["failed"] += facts.pop("ended_failed")
    return msgspec.convert(facts, BackfillRow)


async def list_dates(
    db: Db, backfill_id: int, state: str | None, after: int, limit: int, *, since: datetime | None = None
) -> list[DateRow]:
    """The planned dates of a backfill with an ordinal above `after`; only those of the 24 hours after `since`."""
    rows = await db.fetch(_SQL["dates"], backfill_id, state, after, limit, since)
    return [msgspec.convert(dict(row), DateRow) for row in rows]


async def inactive_dags(db: Db, dag_ids: Collection[str]) -> Mapping[str, str]:
    """The DAGs of these that start nothing: `paused`, `stale` or `held`."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["inactive_dags"], list(dag_ids))} if dag_ids else {}


async def scheduled(db: Db, backfill_id: int, ordinals: Sequence[int]) -> list[ScheduledTask]:
    """The task of each of these dates that waits for slots."""
    return [ScheduledTask(*row) for row in await db.fetch(_SQL["scheduled"], backfill_id, list(ordinals))]


async def count_days(db: Db, backfill_id: int, year: int, clock: str) -> Mapping[date, Mapping[str, int]]:
    """By day in the time zone `clock` and by state, the number of planned dates of the year."""
    starts = days_of_year(year, clock)
    return by_day(year, await db.fetch(_SQL["days"], backfill_id, starts[0], starts[-1], starts))


async def list_failures(db: Db, backfill_id: int, limit: int) -> list[FailedDate]:
    """The failed dates that were planned last, newest first."""
    rows = await db.fetch(_SQL["failures"], backfill_id, limit)
    first = await tasks.first_failures(db, [row["id"] for row in rows])
    return [FailedDate(logical_date, dag_id, run_id, first.get(id_)) for id_, logical_date, dag_id, run_id in rows]


async def read_paces(db: Db, backfills: Sequence[BackfillRow], dates: int) -> Mapping[int, Pace]:
    """By backfill, its recent runs: of its last `dates`, since its last change."""
    ids = [row.id for row in backfills]
    names = [object_name(OF_DAG, dag_id=row.dag_id, backfill_id=row.id) for row in backfills]
    of_former_versions = [object_name(OF_DAG, backfill_id=id_) for id_ in ids]
    rows = await db.fetch(_SQL["paces"], ids, names, of_former_versions, dates) if ids else ()
    return {id_: Pace(*pace) for id_, *pace in rows}


async def list_shares(db: Db, backfill_id: int, counted: int) -> list[PoolShare]:
    """The shares of a backfill in pools, by pool; of the queue of each the first `counted` tasks are read."""
    return [PoolShare(*row) for row in await db.fetch(_SQL["pool_shares"], backfill_id, counted)]


async def list_stages(db: Db, backfill_id: int) -> dict[str, StageRow]:
    """The DAGs of a cascade with their dates, by DAG; one without a date is left out."""
    found = [msgspec.convert(dict(row), StageRow) for row in await db.fetch(_SQL["stages"], backfill_id)]
    return {row.dag_id: row for row in found}
