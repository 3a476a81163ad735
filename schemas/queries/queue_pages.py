"""Queues of pools, and the attempts at backends, as pages show them."""

from datetime import datetime

import msgspec

from tidegate.schemas.notice import instance_name
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("queue_pages")


class QueueRow(msgspec.Struct, frozen=True):
    """A task that waits for slots of a pool. `since` is when it became ready."""

    dag_run_id: int
    task_index: int
    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None
    pool_slots: int
    since: datetime | None

    @property
    def label(self) -> str:
        return instance_name(self.task_id, self.map_index)


class BackendRow(msgspec.Struct, frozen=True):
    """The attempts of a backend on a host that have not ended. `waits_since`: the oldest that the backend has not accepted."""

    backend: str
    host: str | None
    intents: int
    submitting: int
    accepted: int
    waits_since: datetime | None


async def queue(db: Db, pool: str, limit: int) -> list[QueueRow]:
    """The first tasks of a queue, in its order."""
    return [QueueRow(*row) for row in await db.fetch(_SQL["queue"], pool, limit)]


async def open_attempts(db: Db) -> list[BackendRow]:
    """The attempts that have not ended, by backend and host."""
    return [BackendRow(*row) for row in await db.fetch(_SQL["backends"], COUNTED)]
