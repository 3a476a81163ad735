"""Reads what created a run, the events that it consumed, and the steps of its attempts."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.graph import label
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("run_origin")


class Origin(msgspec.Struct, frozen=True):
    """A run and its origin: `creator` created it on a message of the kind `cause`; None where that was not recorded.

    It consumed `events`, of which some may be older than the retention of the ledger; None where their number is unknown.
    `spec` is the serialised DAG at the `version` that the run is pinned to.
    """

    id: int
    run_type: str
    state: str
    run_after: datetime
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    created_at: datetime
    creator: str | None
    cause: str | None
    start_date: datetime | None
    end_date: datetime | None
    events: int | None
    version: int
    version_at: datetime
    path: str
    spec: Any


class ConsumedEvent(msgspec.Struct, frozen=True):
    """A dataset event that a run consumed. All but `number` is None for an event older than the retention."""

    number: int
    uri: str | None
    source: str | None
    id: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    extra: dict[str, Any] | None


class Steps(msgspec.Struct, frozen=True):
    """An attempt with the time of each of its steps. `task` is the name of its task in the run."""

    task: str
    try_number: int
    turn_at: datetime | None
    admitted_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    state: str
    host: str | None


async def origin(db: Db, dag_id: str, run_id: str) -> Origin:
    """Of a run that exists."""
    (row,) = await db.fetch(_SQL["origin"], dag_id, run_id)
    return Origin(*row)


async def consumed(db: Db, dag_run_id: int) -> list[ConsumedEvent]:
    """In the order of their arrival."""
    return [ConsumedEvent(*row) for row in await db.fetch(_SQL["consumed"], dag_run_id)]


async def steps(db: Db, dag_run_id: int, limit: int) -> list[Steps]:
    """The first attempts of a run, in the order of their admission."""
    return [_steps(*row) for row in await db.fetch(_SQL["steps"], dag_run_id, limit)]


def _steps(task_id: str, index: int, *rest: Any) -> Steps:
    return Steps(label(task_id, index), *rest)
