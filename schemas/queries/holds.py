"""Held DAGs: a decision about them failed, or a stored version cannot be read."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.wire.event import TaskFinished

_SQL = load("holds")

KEYS = ("dag_run_id", "submission_id", "deadline_id", "backfill_id")
"""The attributes of a message that lead to its DAG."""


class Hold(msgspec.Struct, frozen=True):
    """Why a DAG is held."""

    since: datetime
    reason: str


class HeldDag(msgspec.Struct, frozen=True):
    """A held DAG, and why."""

    dag_id: str
    since: datetime
    reason: str


async def hold(db: Db, reasons: Mapping[str, str], versions: Mapping[str, int] = {}) -> list[str]:
    """Hold these DAGs; returns the DAGs that were not held before.

    A DAG with another version than in `versions` is left out: the fault was that of a former one.
    """
    of_faults = list(map(versions.get, reasons))
    return [row[0] for row in await db.fetch(_SQL["hold"], list(reasons), list(reasons.values()), db.now, of_faults)]


async def versions_of(db: Db, dag_ids: Collection[str]) -> Mapping[str, int]:
    """The current version of each DAG; deleted ones are left out."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["versions_of"], list(dag_ids))}


async def hold_of(db: Db, dag_id: str) -> Hold | None:
    rows = await db.fetch(_SQL["hold_of"], dag_id)
    return Hold(*rows[0]) if rows else None


async def held_dags(db: Db, limit: int) -> list[HeldDag]:
    """The first held DAGs by id."""
    return [HeldDag(*row) for row in await db.fetch(_SQL["held_dags"], limit)]


async def former_runs(db: Db, dag_id: str, limit: int) -> tuple[str, ...]:
    """The first unfinished runs of a DAG with another version than its current one."""
    return tuple(row[0] for row in await db.fetch(_SQL["former_runs"], dag_id, limit))


async def dag_of(db: Db, message: Any) -> str | None:
    """The one DAG that a message is about; None if it has no single DAG, or for the end of an attempt with a wrong token."""
    if isinstance(dag_id := getattr(message, "dag_id", None), str):
        return dag_id
    keys = [getattr(message, name, None) for name in KEYS]
    token = (message.token or "") if isinstance(message, TaskFinished) else None
    rows = [] if keys == [None] * len(KEYS) else await db.fetch(_SQL["dag_of"], *keys, token)
    return rows[0][0] if rows else None
