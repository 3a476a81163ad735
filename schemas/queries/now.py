"""Reads what needs attention now, what is at work, and what comes next."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.message import CANCELLED_BY, MARKED_BY
from tidegate.schemas.notice import FailedTask, instance_name
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunStateName

_SQL = load("now")

OF_POOL, OF_ALL = 200, 1_000
"""The waiting tasks that are read, of all DAGs."""

RUNS_OF_DAG, TASKS_OF_DAGS = 20, 10_000
"""The active runs of each of some DAGs, and the tasks of them all, among which the waiting ones are found."""

DAGS, WAITING, OF_DAG = 1_000, 20, 5
"""The DAGs with pending events that are found, the ones among them that are read, and the datasets of each."""


class FailedRun(msgspec.Struct, frozen=True):
    """A failed run whose DAG has had no success of a later run since. `task` is the first one that failed; None if none did."""

    dag_id: str
    run_id: str
    end_date: datetime
    order_at: datetime
    reason: str | None
    task: FailedTask | None


class ActiveRun(msgspec.Struct, frozen=True):
    """A run with `tasks` that occupy slots, such as `first`."""

    dag_id: str
    run_id: str
    state: RunStateName
    start_date: datetime | None
    order_at: datetime
    unfinished: int
    tasks: int
    first: str


class WaitingRun(msgspec.Struct, frozen=True):
    """A run with `tasks` that wait for slots. The other facts are those of the task that waits the longest."""

    dag_run_id: int
    task_index: int
    dag_id: str
    run_id: str
    order_at: datetime
    task_id: str
    map_index: int | None
    pool: str
    since: datetime
    tasks: int

    @property
    def label(self) -> str:
        return instance_name(self.task_id, self.map_index)


class ExpectedDataset(msgspec.Struct, frozen=True):
    """A dataset that a DAG has no pending event of, while it has had one of another dataset since `since`."""

    uri: str
    dag_id: str
    since: datetime


class Counts(msgspec.Struct, frozen=True):
    """Tasks that occupy slots, and tasks that wait for slots; each counted up to a limit."""

    active: int
    waiting: int


class HeldDag(msgspec.Struct, frozen=True):
    """A held DAG, and why."""

    dag_id: str
    hold_reason: str | None
    held_since: datetime


class DueDag(msgspec.Struct, frozen=True):
    """A DAG and the time at which the clock visits it next."""

    dag_id: str
    due_at: datetime


async def failed(db: Db, within_s: float, limit: int) -> list[FailedRun]:
    """The newest failed runs that ended within a time, without runs that a user cancelled."""
    rows = await db.fetch(_SQL["failed"], within_s, limit, [CANCELLED_BY, MARKED_BY])
    first = await tasks.first_failures(db, [row["id"] for row in rows])
    return [
        FailedRun(dag_id, run_id, end_date, order_at, reason, first.get(id_))
        for id_, dag_id, run_id, end_date, order_at, reason in rows
    ]


async def backfills(db: Db, within_s: float, limit: int) -> list[int]:
    """The newest backfills that failed within a time, or are at work and have failed dates."""
    return [row[0] for row in await db.fetch(_SQL["backfills"], within_s, limit)]


async def at_work(db: Db, limit: int) -> list[ActiveRun]:
    """The runs at work, the longest first."""
    return [ActiveRun(*row) for row in await db.fetch(_SQL["at_work"], limit)]


async def waiting(db: Db, longer_than_s: float, limit: int, dag_ids: Sequence[str] | None = None) -> list[WaitingRun]:
    """The runs that wait for slots, the longest first: of all DAGs, or of these."""
    numbers = (longer_than_s, OF_POOL, OF_ALL, limit)
    rows = await db.fetch(_SQL["waiting"], *numbers, dag_ids, RUNS_OF_DAG, TASKS_OF_DAGS)
    return [WaitingRun(*row) for row in rows]


async def expected(db: Db, longer_than_s: float) -> tuple[list[ExpectedDataset], bool]:
    """The datasets that DAGs wait for, the longest wait first; and whether there are DAGs that are not looked at."""
    rows = await db.fetch(_SQL["expected"], longer_than_s, DAGS, WAITING, OF_DAG)
    return [ExpectedDataset(*row[1:]) for row in rows if row["uri"] is not None], rows[0]["has_more"]


async def counts(db: Db, most: int) -> Counts:
    """The counts of the installation, each up to `most`."""
    (row,) = await db.fetch(_SQL["counts"], most)
    return Counts(*row)


async def held(db: Db, limit: int) -> list[HeldDag]:
    """The held DAGs by id."""
    return [HeldDag(*row) for row in await db.fetch(_SQL["held"], limit)]


async def due(db: Db, within_s: float, limit: int) -> list[DueDag]:
    """The DAGs that the clock visits within `within_s`, soonest first."""
    return [DueDag(*row) for row in await db.fetch(_SQL["due"], within_s, limit)]
