"""Backfills: lock, read their work, and the columns of their effects."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.schemas.backfill import (
    BackfillRoom,
    BackfillSpec,
    BackfillView,
    Consumer,
    EndedDate,
    ExistingRun,
    Limits,
    Outlets,
    Reprocess,
    Retry,
)
from tidegate.schemas.effect.backfill import InsertBackfill, SetBackfillLimits, UpdateBackfill
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import BackfillState, DateState, RunState
from tidegate.schemas.view import RunView
from tidegate.schemas.wire.event import encode

if TYPE_CHECKING:
    from asyncpg import Record

_SQL = load("backfills")


class Activity(NamedTuple):
    """The numbers of running and queued runs of a backfill."""

    running: int
    queued: int


async def reserve(db: Db) -> int:
    """The id of a new backfill."""
    return int((await db.fetch(_SQL["reserve"]))[0][0])


class Place(NamedTuple):
    """The DAG of a backfill, and the DAGs of its stages until now."""

    dag_id: str
    stage_dag_ids: Sequence[str]


async def places(db: Db, ids: Collection[int]) -> Mapping[int, Place]:
    """Of each backfill; unknown ids are left out."""
    return {row[0]: Place(row[1], row[2]) for row in await db.fetch(_SQL["place"], list(ids))}


async def lock(db: Db, ids: Collection[int]) -> Mapping[int, BackfillView]:
    """Lock these backfills, whose DAGs are locked."""
    return {view.id: view for view in map(_view, await db.lock(_SQL["lock"], sorted(ids)))}


async def view(db: Db, id_: int) -> BackfillView:
    """Read an existing backfill without locking it."""
    return _view((await db.fetch(_SQL["view"], id_))[0])


async def active_of(db: Db, dag_id: str) -> tuple[BackfillView, ...]:
    """The backfills of a locked DAG that have not ended."""
    return tuple(map(_view, await db.fetch(_SQL["active_of"], dag_id)))


def _view(row: Any) -> BackfillView:
    values = dict(zip(BackfillView.__struct_fields__, row, strict=True))
    values["state"], values["reprocess"] = BackfillState(values["state"]), Reprocess(values["reprocess"])
    values["outlets"] = Outlets(values["outlets"])
    values["stages"] = tuple(values["stages"])
    values["logical_dates"] = None if values["logical_dates"] is None else tuple(values["logical_dates"])
    return BackfillView(**values)


async def rooms(db: Db, ids: Collection[int], pool: str = "") -> Mapping[int, BackfillRoom]:
    """What these backfills may start, by id."""
    found = await db.fetch(_SQL["rooms"], list(ids), pool) if ids else ()
    return {row[0]: BackfillRoom(row[0], BackfillState(row[1]), *row[2:]) for row in found}


async def activity(db: Db, id_: int) -> Activity:
    return Activity(*(await db.fetch(_SQL["activity"], id_))[0])


async def queued_runs(db: Db, backfill: BackfillView, limit: int) -> list[RunView]:
    """The first queued runs of a backfill, in the order of its dates."""
    rows = await db.fetch(_SQL["queued_runs"], backfill.id, backfill.is_reverse, limit) if limit else ()
    return [run_view(row) for row in rows]


async def active_runs(db: Db, id_: int, limit: int, *, running: bool) -> list[int]:
    """The first queued runs of a backfill, with `running` also its running ones."""
    return [row[0] for row in await db.fetch(_SQL["active_runs"], id_, running, limit)]


async def ended_dates(db: Db, id_: int, limit: int) -> tuple[EndedDate, ...]:
    """The first open dates whose runs have ended. A run that was deleted counts as failed."""
    rows = await db.fetch(_SQL["ended_dates"], id_, limit)
    return tuple(EndedDate(ordinal, DateState(state), *counts) for ordinal, state, *counts in rows)


async def retries(db: Db, id_: int, limit: int) -> Mapping[int, Retry]:
    """The first dates to retry, by ordinal."""
    rows = await db.fetch(_SQL["retries"], id_, limit) if limit else ()
    return {row[0]: Retry(row[1], row[2]) for row in rows}


async def ordinals(db: Db, id_: int, dag_run_ids: Collection[int]) -> Mapping[int, int]:
    """The open dates of these runs: run to ordinal."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["ordinals"], id_, list(dag_run_ids))} if dag_run_ids else {}


async def runs_of_dates(db: Db, dag_id: str, dates: Collection[datetime]) -> Mapping[datetime, ExistingRun]:
    """The runs that these logical dates of a locked DAG have already."""
    rows = await db.fetch(_SQL["runs_of_dates"], dag_id, list(dates)) if dates else ()
    return {date: ExistingRun(id_, run_id, RunState(state)) for date, id_, run_id, state in rows}


async def replayed(db: Db, backfill: BackfillView, limit: int) -> tuple[Consumer, ...]:
    """The next runs of a DAG whose runs are the dates of the backfill."""
    start, end = backfill.planned_until or backfill.start_date, min(backfill.end_date, backfill.horizon)
    return _consumers(await db.fetch(_SQL["replayed"], backfill.id, backfill.dag_id, start, end, limit))


async def edges(db: Db, dag_id: str) -> list[tuple[str, str]]:
    """Of the DAGs that consume outlets of a DAG, directly or not: each producer with each of its consumers."""
    return [(row[0], row[1]) for row in await db.fetch(_SQL["edges"], dag_id)]


async def refusing(db: Db, dag_ids: Collection[str]) -> tuple[str, ...]:
    """Which of these DAGs allow no backfills."""
    return tuple(row[0] for row in await db.fetch(_SQL["refusing"], list(dag_ids))) if dag_ids else ()


async def rewritten(db: Db, id_: int, after: int, until: int) -> list[tuple[str, str, str, str]]:
    """The outlets of runs that ran again and succeeded, as (DAG, run, task, URI); of dates after one ordinal, until another."""
    return [(row[0], row[1], row[2], row[3]) for row in await db.fetch(_SQL["rewritten"], id_, after, until)]


async def consumers(db: Db, id_: int, dag_id: str, event_ids: Collection[str]) -> tuple[Consumer, ...]:
    """The runs of a DAG that consumed these events of outlets, and are no dates of the backfill yet, in their order."""
    rows = await db.fetch(_SQL["consumers"], id_, dag_id, list(event_ids)) if event_ids else ()
    return _consumers(rows)


def _consumers(rows: "Iterable[Record]") -> tuple[Consumer, ...]:
    return tuple(Consumer(order_at, ExistingRun(run, run_id, RunState(state))) for order_at, run, run_id, state in rows)


NEW = ("id", "version_id", "horizon", *BackfillSpec.__struct_fields__, "stages")
CHANGING = tuple(name for name in BackfillView.__struct_fields__ if name not in NEW)


def new_columns(effects: Sequence[InsertBackfill]) -> Sequence[Sequence[Any]]:
    """Lists as texts: asyncpg would encode them as a dimension of the array."""
    found = dict(zip(NEW, _columns(effects, NEW), strict=True))
    found["logical_dates"] = [
        dates and "{" + ",".join(date.isoformat() for date in dates) + "}" for dates in found["logical_dates"]
    ]
    found["stages"] = [encode(stages).decode() for stages in found["stages"]]
    return list(found.values())


def changed_columns(effects: Sequence[UpdateBackfill]) -> Sequence[Sequence[Any]]:
    return [*_columns(effects, ("id", "end_date", "horizon", *CHANGING)), [effect.due_at for effect in effects]]


def limit_columns(effects: Sequence[SetBackfillLimits]) -> Sequence[Sequence[Any]]:
    return _columns(effects, ("id", *Limits.__struct_fields__))


def _columns(effects: Sequence[InsertBackfill | UpdateBackfill | SetBackfillLimits], names: Sequence[str]) -> list[list[Any]]:
    return [[getattr(effect.backfill, name) for effect in effects] for name in names]
