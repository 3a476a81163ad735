"""Backfills: lock, read their work, and the columns of their effects."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.schemas.backfill import (
    BackfillActivity,
    BackfillCapacity,
    BackfillSpec,
    BackfillView,
    Consumer,
    EndedDate,
    ExistingRun,
    Limits,
    Outlets,
    Reprocess,
    Retry,
    TaskCounts,
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


async def reserve(db: Db) -> int:
    """The id of a new backfill."""
    return int((await db.fetch(_SQL["reserve"]))[0][0])


class DagIds(NamedTuple):
    """The DAG of a backfill, and the DAGs of its stages once the first one has begun."""

    dag_id: str
    stage_dag_ids: Sequence[str]


async def dag_ids(db: Db, ids: Collection[int]) -> Mapping[int, DagIds]:
    """The DAG and the begun stages of each backfill; unknown ids are left out."""
    return {row[0]: DagIds(row[1], row[2]) for row in await db.fetch(_SQL["dag_ids"], list(ids))}


async def lock(db: Db, ids: Collection[int], *, skips: bool = False) -> Mapping[int, BackfillView]:
    """Lock these backfills, whose DAGs are locked. `skips` as in `Db.lock`."""
    return {view.id: view for view in map(_view, await db.lock(_SQL["lock"], sorted(ids), skips=skips))}


async def active_of(db: Db, dag_id: str) -> tuple[BackfillView, ...]:
    """The backfills of a locked DAG that have not ended."""
    return tuple(map(_view, await db.fetch(_SQL["active_of"], dag_id)))


async def unended(db: Db, ids: Collection[int]) -> frozenset[int]:
    """Which of these backfills have not ended."""
    return frozenset(row[0] for row in await db.fetch(_SQL["unended"], list(ids))) if ids else frozenset()


async def waiting_for(db: Db, dag_id: str) -> tuple[int, ...]:
    """The backfills that have not ended, and whose cascades wait for runs of a locked DAG."""
    return tuple(row[0] for row in await db.fetch(_SQL["waiting_for"], dag_id))


def _view(row: Any) -> BackfillView:
    values = dict(zip(BackfillView.__struct_fields__, row, strict=True))
    values["state"], values["reprocess"] = BackfillState(values["state"]), Reprocess(values["reprocess"])
    values["outlets"] = Outlets(values["outlets"])
    values["stages"] = tuple(values["stages"])
    values["logical_dates"] = None if values["logical_dates"] is None else tuple(values["logical_dates"])
    return BackfillView(**values)


async def capacities(db: Db, ids: Collection[int], pool: str) -> Mapping[int, BackfillCapacity]:
    """What these backfills may start in a pool, by id."""
    found = await db.fetch(_SQL["capacities"], list(ids), pool) if ids else ()
    return {row[0]: BackfillCapacity(row[0], BackfillState(row[1]), *row[2:]) for row in found}


async def activity(db: Db, sequential: Mapping[int, bool]) -> Mapping[int, BackfillActivity]:
    """The running runs of each backfill. `sequential`: whether its tasks may wait for the previous run."""
    rows = await db.fetch(_SQL["activity"], list(sequential), list(sequential.values())) if sequential else ()
    return {id_: BackfillActivity(*counts) for id_, *counts in rows}


async def queued_runs(db: Db, limits: Mapping[int, tuple[bool, int]]) -> Mapping[int, list[RunView]]:
    """The first queued runs of each backfill in the order of its dates, of DAGs that start runs.

    `limits`: whether the order is reversed, and how many.
    """
    found: dict[int, list[RunView]] = {id_: [] for id_ in limits}
    args = zip(*((id_, *limit) for id_, limit in limits.items()), strict=True)
    for run in map(run_view, await db.fetch(_SQL["queued_runs"], *args) if limits else ()):
        found[run.backfill_id or 0].append(run)
    return found


async def active_runs(db: Db, running: Mapping[int, bool], limit: int) -> list[int]:
    """The first runs of each backfill that are queued or wait for the run before them; with `running` all running ones, too."""
    rows = await db.fetch(_SQL["active_runs"], list(running), list(running.values()), limit) if running else ()
    return [row[0] for row in rows]


async def ended_dates(db: Db, ids: Collection[int], limit: int) -> Mapping[int, tuple[EndedDate, ...]]:
    """The first open dates of each backfill whose runs have ended. A run that was deleted counts as failed."""
    found: dict[int, tuple[EndedDate, ...]] = dict.fromkeys(ids, ())
    for id_, ordinal, state, *counts in await db.fetch(_SQL["ended_dates"], list(ids), limit) if ids else ():
        found[id_] += (EndedDate(ordinal, DateState(state), TaskCounts(*counts)),)
    return found


async def busy(db: Db, ids: Collection[int]) -> Set[int]:
    """Which of these backfills have a run of their stage, or of an earlier one, that has not ended or is to run again."""
    return {row[0] for row in await db.fetch(_SQL["busy"], list(ids))} if ids else set()


async def waiting_for_others(db: Db, ids: Collection[int]) -> Set[int]:
    """Which of these backfills wait for the end of a run that is none of theirs, and then run it again."""
    return {row[0] for row in await db.fetch(_SQL["waiting_for_others"], list(ids))} if ids else set()


async def retries(db: Db, limits: Mapping[int, int], *, all_stages: bool = False) -> Mapping[int, dict[int, Retry]]:
    """The first dates to retry of each backfill, by ordinal; with `all_stages` also those of stages to come."""
    found: dict[int, dict[int, Retry]] = {id_: {} for id_ in limits}
    for row in await db.fetch(_SQL["retries"], list(limits), list(limits.values()), all_stages) if limits else ():
        id_, ordinal, run, is_whole, at, was_cancelled, *tasks = row
        found[id_][ordinal] = Retry(run, is_whole, at, was_cancelled, TaskCounts(*tasks))
    return found


async def ordinals(db: Db, runs: Collection[RunView]) -> Mapping[int, Mapping[int, int]]:
    """The dates of these runs of backfills that are open, or to run again: by backfill, run to ordinal."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    args = [run.backfill_id for run in runs], [run.id for run in runs]
    for id_, dag_run_id, ordinal in await db.fetch(_SQL["ordinals"], *args) if runs else ():
        found[id_][dag_run_id] = ordinal
    return found


async def runs_of_dates(db: Db, dates: Collection[tuple[str, datetime]]) -> Mapping[tuple[str, datetime], ExistingRun]:
    """The runs that these logical dates of locked DAGs have already."""
    rows = await db.fetch(_SQL["runs_of_dates"], *zip(*dates, strict=True)) if dates else ()
    return {(dag_id, date): ExistingRun(id_, run_id, RunState(state)) for dag_id, date, id_, run_id, state in rows}


async def replayed(db: Db, replays: Collection[BackfillView], limit: int) -> Mapping[int, tuple[Consumer, ...]]:
    """The next runs of the DAG of each backfill whose dates are the runs that its DAG has had."""
    args = zip(*((backfill.id, backfill.dag_id, *_replay_range(backfill)) for backfill in replays), strict=True)
    return _consumers(await db.fetch(_SQL["replayed"], *args, limit) if replays else ())


def _replay_range(backfill: BackfillView) -> tuple[datetime, datetime]:
    return backfill.planned_until or backfill.start_date, min(backfill.end_date, backfill.horizon)


async def edges(db: Db, dag_id: str) -> list[tuple[str, str]]:
    """Of the DAGs that consume outlets of a DAG, directly or not: each producer with each of its consumers."""
    return [(row[0], row[1]) for row in await db.fetch(_SQL["edges"], dag_id)]


async def dags_of_cascade(db: Db, dag_id: str) -> list[str]:
    """A DAG and its consumers, direct and indirect ones: whose runs a cascade that begins with it runs again."""
    return [dag_id, *sorted({consumer for _, consumer in await edges(db, dag_id)} - {dag_id})]


async def refusing(db: Db, dag_ids: Collection[str]) -> tuple[str, ...]:
    """Which of these DAGs allow no backfills."""
    return tuple(row[0] for row in await db.fetch(_SQL["refusing"], list(dag_ids))) if dag_ids else ()


class RewrittenOutlet(NamedTuple):
    """An outlet of a task that succeeded in a run that a backfill ran again.

    The backfill first ran it again at `again_since`; its last execution ended at `end_date`.
    """

    backfill_id: int
    dag_id: str
    run_id: str
    task_id: str
    uri: str
    again_since: datetime
    end_date: datetime

    @property
    def outlet(self) -> tuple[str, str, str, str]:
        """The DAG, the run, the task and the dataset."""
        return self.dag_id, self.run_id, self.task_id, self.uri


async def rewritten(db: Db, ranges: Mapping[int, tuple[int, int]]) -> list[RewrittenOutlet]:
    """The outlets of runs that ran again and succeeded, of the dates of each backfill after one ordinal, until another."""
    args = zip(*((id_, *range_) for id_, range_ in ranges.items()), strict=True)
    return [RewrittenOutlet(*row) for row in (await db.fetch(_SQL["rewritten"], *args) if ranges else ())]


class OutletEvent(NamedTuple):
    """The event of an outlet that was rewritten, and a DAG whose runs consumed it. It stands for those of instances, too."""

    consumer_id: str
    event_id: str
    outlet: RewrittenOutlet


async def consumers(db: Db, events: Collection[OutletEvent]) -> Mapping[int, tuple[Consumer, ...]]:
    """By backfill, the runs that consumed these events and did not run since they were rewritten, in their order."""
    args = zip(*((consumer_id, event_id, *outlet) for consumer_id, event_id, outlet in events), strict=True)
    return _consumers(await db.fetch(_SQL["consumers"], *args) if events else ())


def _consumers(rows: "Iterable[Record]") -> Mapping[int, tuple[Consumer, ...]]:
    found: dict[int, tuple[Consumer, ...]] = defaultdict(tuple)
    for id_, order_at, run, run_id, state, ordinal, is_outdated in rows:
        found[id_] += (Consumer(order_at, ExistingRun(run, run_id, RunState(state)), ordinal, is_outdated),)
    return found


INSERTED = ("id", "version_id", "horizon", *BackfillSpec.__struct_fields__, "stages")
COUNTERS = ("dates", "succeeded", "failed", "skipped", "cancelled")
"""They follow the dates of a backfill, by triggers."""

UPDATED = tuple(name for name in BackfillView.__struct_fields__ if name not in INSERTED + COUNTERS)


def new_columns(effects: Sequence[InsertBackfill]) -> Sequence[Sequence[Any]]:
    """Lists as texts: asyncpg would encode them as a dimension of the array."""
    found = dict(zip(INSERTED, _columns(effects, INSERTED), strict=True))
    found["logical_dates"] = [
        dates and "{" + ",".join(date.isoformat() for date in dates) + "}" for dates in found["logical_dates"]
    ]
    found["stages"] = [encode(stages).decode() for stages in found["stages"]]
    return list(found.values())


def changed_columns(effects: Sequence[UpdateBackfill]) -> Sequence[Sequence[Any]]:
    stages = [encode(effect.backfill.stages).decode() for effect in effects]
    return [*_columns(effects, ("id", "end_date", "horizon", *UPDATED)), stages, [effect.due_at for effect in effects]]


def limit_columns(effects: Sequence[SetBackfillLimits]) -> Sequence[Sequence[Any]]:
    return _columns(effects, ("id", *Limits.__struct_fields__))


def _columns(effects: Sequence[InsertBackfill | UpdateBackfill | SetBackfillLimits], names: Sequence[str]) -> list[list[Any]]:
    return [[getattr(effect.backfill, name) for effect in effects] for name in names]
