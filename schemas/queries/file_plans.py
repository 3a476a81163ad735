"""Reads what a change of DAG files may change: DAGs as they stand, and their active runs."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("file_plans")


class DagState(msgspec.Struct, frozen=True):
    """A DAG with the number and the serialised form of its current version, and the number of its pending events."""

    dag_id: str
    path: str
    is_paused: bool
    is_stale: bool
    is_held: bool
    version: int | None
    spec: Any
    due_at: datetime | None
    pending: int


class ActiveRuns(msgspec.Struct, frozen=True):
    """The queued or running runs of a version."""

    dag_id: str
    version: int
    state: str
    runs: int


async def limit_statements(db: Db, within_s: float) -> None:
    """Let no statement of the transaction take longer."""
    await db.execute(_SQL["limit_statements"], f"{within_s * 1000:.0f}")


async def dags(db: Db, dag_ids: Collection[str]) -> Mapping[str, DagState]:
    """The DAGs that exist, by id."""
    return {row["dag_id"]: DagState(*row) for row in await db.fetch(_SQL["dags"], list(dag_ids))}


async def active_runs(db: Db, dag_ids: Collection[str]) -> Mapping[str, Sequence[ActiveRuns]]:
    """By DAG, its unfinished runs by version and state."""
    found: dict[str, list[ActiveRuns]] = defaultdict(list)
    for row in [ActiveRuns(*row) for row in await db.fetch(_SQL["active_runs"], list(dag_ids))]:
        found[row.dag_id].append(row)
    return found
