"""What is due, and when the next thing will be. Every row belongs to a shard, and each shard to one daemon."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("clock")

SHARDS = 16
"""As the schema divides DAGs and runs."""


class Due(msgspec.Struct, frozen=True):
    """When the first of each kind is due; None: there is none."""

    dag: datetime | None
    retry: datetime | None
    run: datetime | None
    attempt: datetime | None
    deadline: datetime | None

    @property
    def moments(self) -> tuple[datetime | None, ...]:
        return msgspec.structs.astuple(self)


async def next_due(db: Db, shards: Sequence[int]) -> Due:
    return Due(*(await db.fetch(_SQL["next_due"], shards))[0])


async def dags(db: Db, shards: Sequence[int], limit: int) -> list[str]:
    """DAGs whose `due_at` has come, the most overdue first."""
    return [row[0] for row in await db.fetch(_SQL["due_dags"], shards, db.now, limit)]


async def retries(db: Db, shards: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Task instances whose time for another try has come, as (dag_run_id, task_index)."""
    return [(row[0], row[1]) for row in await db.fetch(_SQL["due_retries"], shards, db.now, limit)]


async def late_runs(db: Db, shards: Sequence[int], limit: int) -> list[int]:
    """Runs whose time is over."""
    return [row[0] for row in await db.fetch(_SQL["late_runs"], shards, db.now, limit)]


async def late_attempts(db: Db, shards: Sequence[int], limit: int) -> list[UUID]:
    """Attempts whose time is over."""
    return [row[0] for row in await db.fetch(_SQL["late_attempts"], shards, db.now, limit)]


async def passed_deadlines(db: Db, shards: Sequence[int], limit: int) -> list[int]:
    """Open deadlines that have passed."""
    return [row[0] for row in await db.fetch(_SQL["passed_deadlines"], shards, db.now, limit)]
