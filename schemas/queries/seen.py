"""A DAG as it is at the moment, with all that waits for it: for who only looks. Nothing is locked."""

from datetime import datetime

import msgspec

from tidegate.schemas.queries import dags, datasets, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import DagView

_SQL = load("seen")

MOST_EVENTS = 10_000
"""Of more events than that the rest is not looked at."""


class AroundDag(msgspec.Struct, frozen=True):
    """What is known around a DAG beside its own row. `running` are the first few of its runs that work."""

    path: str
    version: int
    paused_at: datetime | None
    stale_at: datetime | None
    import_error: str | None
    broken_since: datetime | None
    running: list[str]


class DiscardRow(msgspec.Struct, frozen=True):
    """How many of the last events that made no run of a DAG did so for a reason."""

    reason: str
    events: int
    last_at: datetime


async def dag(db: Db, dag_id: str) -> DagView:
    """Of a DAG that exists, as a decision would find it that had read everything. The ids in it stand for runs and are no ids."""
    (row,) = await db.fetch(_SQL["dag"], dag_id)
    graph = (await versions.graphs(db, {row["version_id"]}))[row["version_id"]]
    locked = dags.locked_dag(graph, *row)
    active = (await dags.activity_from(db, {dag_id: 0}))[dag_id]
    return dags.dag_view(
        locked,
        active,
        taken=(await dags.taken(db, {dag_id: locked} if graph.timetable else {})).get(dag_id, frozenset()),
        tick_run_ids=(0,),
        event_run_ids=(0,),
        waiting=(await dags.queued(db, {dag_id: active.queued}))[dag_id] if active.queued else (),
        pending=tuple(await datasets.waiting(db, dag_id, MOST_EVENTS)),
    )


async def around_dag(db: Db, dag_id: str) -> AroundDag:
    """Of a DAG that exists."""
    (row,) = await db.fetch(_SQL["around_dag"], dag_id)
    return AroundDag(*row)


async def discards(db: Db, dag_id: str) -> list[DiscardRow]:
    """The last reason first."""
    return [DiscardRow(*row) for row in await db.fetch(_SQL["discards"], dag_id)]
