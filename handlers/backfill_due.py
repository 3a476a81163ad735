"""Backfills are due: their runs have ended, or they have dates to plan."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidegate.handlers.backfills.cascade import MAX_SCANNED
from tidegate.handlers.backfills.dates import MAX_DATES, PlannedDate, is_replay, next_ticks, plan_dates
from tidegate.handlers.backfills.rerun import EndedRun
from tidegate.handlers.backfills.step import MAX_ENDS, Work, counted, may_start, take_step
from tidegate.handlers.runs.transition import outlet_event_id
from tidegate.schemas.backfill import BackfillView, Consumer
from tidegate.schemas.effect import Effect
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillDue, Message
from tidegate.schemas.queries import backfills, dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED
from tidegate.schemas.view import LockedDag, QueuedRun


class State(msgspec.Struct, frozen=True):
    """The backfills that are due, under the locks of their DAGs. Those of held DAGs are left out."""

    now: datetime
    work: tuple[Work, ...]


async def load(db: Db, messages: Sequence[Message[BackfillDue]]) -> State:
    places = await backfills.places(db, {message.body.backfill_id for message in messages})
    wanted = {dag_id for place in places.values() for dag_id in (place.dag_id, *place.stage_dag_ids)}
    locked_dags = await dags.lock(db, wanted)
    locked = await backfills.lock(db, [id_ for id_, place in places.items() if place.dag_id in locked_dags])
    active = [backfill for backfill in locked.values() if backfill.state not in BACKFILL_ENDED]
    found = [await _read(db, backfill, locked_dags) for backfill in active]
    return State(db.now, tuple(work for work in found if work is not None))


async def _read(db: Db, backfill: BackfillView, locked: Mapping[str, LockedDag]) -> Work | None:
    """None if the DAG of the stage is held, or the stage has just begun: the clock comes again."""
    dag = locked.get(backfill.stage_dag_id)
    if dag is None:
        exists = await dags.exists(db, backfill.stage_dag_id)
        return None if exists else await _gone(db, backfill, locked[backfill.dag_id].graph)
    version_id = (backfill.stage_version_id or dag.graph.version_id) if backfill.stage else backfill.version_id
    graph = (await versions.graphs(db, {version_id}))[version_id]
    ended = await backfills.ended_dates(db, backfill.id, MAX_ENDS)
    replays = not backfill.stage and is_replay(backfill, graph)
    is_held_back = dag.is_inactive or locked[backfill.dag_id].is_inactive
    work = Work(backfill=backfill, graph=graph, is_held_back=is_held_back, is_replay=replays, ended=ended)
    after = counted(backfill, ended)
    if after.stop_reason:
        return await _with_ending(db, after, work)
    return await _with_starts(db, after, work) if may_start(after) and not is_held_back else work


async def _gone(db: Db, backfill: BackfillView, graph: Graph) -> Work:
    """The DAG of the stage was deleted, with its runs: their dates fail."""
    ended, retries = await backfills.ended_dates(db, backfill.id, MAX_ENDS), await backfills.retries(db, backfill.id, MAX_ENDS)
    return Work(backfill=backfill, graph=graph, is_gone=True, ended=ended, retries=retries)


async def _with_ending(db: Db, backfill: BackfillView, work: Work) -> Work:
    ids = await backfills.active_runs(db, backfill.id, MAX_ENDS, running=backfill.kills)
    locked = await _lock_runs(db, ids)
    ending = await backfills.ordinals(db, backfill.id, locked)
    return msgspec.structs.replace(work, ending=ending, retries=await backfills.retries(db, backfill.id, MAX_ENDS), runs=locked)


async def _with_starts(db: Db, backfill: BackfillView, work: Work) -> Work:
    active = await backfills.activity(db, backfill.id)
    slots = max(backfill.max_active_runs - active.running, 0)
    queued = await backfills.queued_runs(db, backfill, slots)
    graphs = await versions.of_runs(db, queued)
    room = max(slots - active.queued, 0)
    retries = await backfills.retries(db, backfill.id, room)
    planned = NOTHING if backfill.stage or work.is_replay else await _plan(db, backfill, work.graph, room - len(retries))
    again = [date.existing.id for date in planned.dates if date.existing and date.reason is None]
    return msgspec.structs.replace(
        work,
        queued_runs=tuple(QueuedRun(run, graphs[run.version_id]) for run in queued),
        retries=retries,
        planned=planned.dates,
        more_dates=planned.more,
        has_room=planned.has_room,
        consumers=await _consumers(db, backfill, is_replay=work.is_replay),
        runs=await _lock_runs(db, [*(retry.dag_run_id for retry in retries.values()), *again]),
        run_ids=tuple(await dags.reserve(db, sum(date.reason is None for date in planned.dates) - len(again))),
    )


class _Planned(NamedTuple):
    dates: tuple[PlannedDate, ...]
    more: bool
    has_room: bool


NOTHING = _Planned((), more=False, has_room=False)


async def _consumers(db: Db, backfill: BackfillView, *, is_replay: bool) -> tuple[Consumer, ...]:
    """The runs of the stage that consumed outlets of the next dates; at stage 0 of a replay, the next runs of the DAG."""
    if not backfill.stage:
        return await backfills.replayed(db, backfill, MAX_SCANNED) if is_replay and not backfill.is_planned else ()
    until = min(backfill.scanned + MAX_SCANNED, backfill.scan_until)
    outlets = await backfills.rewritten(db, backfill.id, backfill.scanned, until)
    return await backfills.consumers(db, backfill.id, backfill.stage_dag_id, {outlet_event_id(*outlet) for outlet in outlets})


async def _plan(db: Db, backfill: BackfillView, graph: Graph, room: int) -> _Planned:
    """The next dates. Once one of them gets no run, many are read at once: it may be so for all."""
    if backfill.is_planned or room <= 0:
        return _Planned((), more=not backfill.is_planned, has_room=False)
    for most in (room + 1, MAX_DATES):
        ticks = next_ticks(backfill, graph, most)
        existing = await backfills.runs_of_dates(db, backfill.dag_id, [tick.logical_date for tick in ticks])
        dates = plan_dates(backfill, ticks, existing, room)
        started = sum(date.reason is None for date in dates)
        more = len(dates) < len(ticks) or len(ticks) == most
        if started == room or not more:
            break
    return _Planned(tuple(dates), more, has_room=more and started < room)


async def _lock_runs(db: Db, ids: Sequence[int]) -> Mapping[int, EndedRun]:
    if not ids:
        return {}
    locked = await runs.lock(db, ids)
    graphs: Mapping[int, Graph] = await versions.of_runs(db, locked.values())
    instances = await tasks.of_runs(db, locked)
    return {id_: EndedRun(run, graphs[run.version_id], instances.get(id_, {})) for id_, run in locked.items()}


def decide(_messages: Sequence[Message[BackfillDue]], state: State) -> Iterator[Effect]:
    with Faults() as faults:
        for work in state.work:
            with faults.of(work.backfill.dag_id):
                yield from take_step(work, state.now)
