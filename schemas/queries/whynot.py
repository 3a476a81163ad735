"""What surrounds a task instance, read for people who ask why it does not run. Nothing is locked."""

from datetime import datetime

import msgspec

from tidegate.schemas.graph import label
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import TaskKey

_SQL = load("whynot")

MOST_NAMED = 5
"""How many of those that hold something up are named."""


class Circumstances(msgspec.Struct, frozen=True):
    """What is known around a run beside its own row. `events` it consumed; `running` are runs of its DAG, the first few.

    `paused_at` and `stale_at` are when the DAG last came to be that, whether it still is or not.
    """

    path: str
    paused_at: datetime | None
    stale_at: datetime | None
    import_error: str | None
    broken_since: datetime | None
    version: int
    created_at: datetime
    end_date: datetime | None
    events: int
    reason: str | None
    running: list[str]


class Place(msgspec.Struct, frozen=True):
    """Where a task instance waits or waited, and since when."""

    pool: str
    pool_slots: int
    scheduled_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None


class AtWork(msgspec.Struct, frozen=True):
    """A task instance that takes slots. `task` is its name in its run; it is queued for as long as it has no `since`."""

    dag_id: str
    run_id: str
    task: str
    slots: int
    since: datetime | None


class AttemptFacts(msgspec.Struct, frozen=True):
    """The newest attempt of a task instance. `ahead` intents come before it on its backend.

    `has_owner`: the daemon that began to submit it shows life.
    """

    backend: str
    state: str
    created_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    ended_at: datetime | None
    host: str | None
    reason: str
    kill_reason: str | None
    ahead: int
    has_owner: bool


async def circumstances(db: Db, dag_run_id: int) -> Circumstances:
    """Of a run that exists."""
    (row,) = await db.fetch(_SQL["circumstances"], dag_run_id)
    return Circumstances(*row)


async def place(db: Db, key: TaskKey) -> Place | None:
    """None where the run has not started."""
    rows = await db.fetch(_SQL["place"], *key)
    return Place(*rows[0]) if rows else None


async def before(db: Db, key: TaskKey, limit: int) -> list[TaskKey]:
    """The first that come before it in the queue of its pool, in their order."""
    return [(row[0], row[1]) for row in await db.fetch(_SQL["before"], *key, limit)]


async def in_pool(db: Db, pool: str) -> list[AtWork]:
    """The first few that take slots of a pool, those that began first before others; so do the next two."""
    return [_at_work(*row) for row in await db.fetch(_SQL["at_work_in_pool"], pool, MOST_NAMED)]


async def in_run(db: Db, dag_run_id: int) -> list[AtWork]:
    return [_at_work(*row) for row in await db.fetch(_SQL["at_work_in_run"], dag_run_id, MOST_NAMED)]


async def of_task(db: Db, dag_id: str, task_id: str) -> list[AtWork]:
    """Only of a task with limits of its own."""
    return [_at_work(*row) for row in await db.fetch(_SQL["at_work_of_task"], task_id, dag_id, MOST_NAMED)]


async def attempt(db: Db, key: TaskKey) -> AttemptFacts | None:
    """None where the task has not been admitted yet."""
    rows = await db.fetch(_SQL["attempt"], *key)
    return AttemptFacts(*rows[0]) if rows else None


def _at_work(dag_id: str, run_id: str, task_id: str, index: int, slots: int, since: datetime | None) -> AtWork:
    return AtWork(dag_id, run_id, label(task_id, index), slots, since)
