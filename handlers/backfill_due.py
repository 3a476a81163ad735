"""Backfills are due: their runs have ended, or they have dates to plan."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from tidegate.handlers.backfills.cascade import MAX_SCANNED, version_of_runs
from tidegate.handlers.backfills.dates import EMPTY_PLAN, MAX_DATES, Plan, cut_plan, is_replay, next_ticks, plan_next
from tidegate.handlers.backfills.rerun import LockedRun
from tidegate.handlers.backfills.slots import Slots, slots_of, startable_retries, startable_runs
from tidegate.handlers.backfills.step import MAX_ENDS, DueBackfill, ends_with_stop, may_start, scans, take_step
from tidegate.handlers.runs.outlets import outlet_event_id
from tidegate.handlers.scheduling.read_plan import TASKS_PER_DECISION, most_runs
from tidegate.schemas.backfill import BackfillView, Consumer, EndedDate, ExistingRun, Retry
from tidegate.schemas.effect import Effect
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillDue, Message
from tidegate.schemas.queries import backfills, dags, runs, tasks, versions
from tidegate.schemas.queries.backfills import OutletEvent
from tidegate.schemas.queries.dags import UnreadDag
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BACKFILL_ENDED, BackfillState
from tidegate.schemas.view import QueuedRun, RunView

Locked = Mapping[str, UnreadDag]
"""The locked DAGs; deleted ones are left out."""


class State(msgspec.Struct, frozen=True):
    """The due backfills, under the locks of their DAGs. A backfill of a held DAG is left out unless it is cancelled."""

    now: datetime
    due: tuple[DueBackfill, ...]


async def load(db: Db, messages: Sequence[Message[BackfillDue]]) -> State:
    """A backfill whose stage has just begun is left out: the DAG of the stage is not locked. The clock visits it again.

    So it does one whose row, or that of a DAG of it, another session holds.
    """
    found = await backfills.dag_ids(db, {message.body.backfill_id for message in messages})
    wanted = {dag_id for ids in found.values() for dag_id in (ids.dag_id, *ids.stage_dag_ids)}
    locked_dags = await dags.lock_unread(db, wanted, skips=True)
    wanted -= db.skipped
    free = [id_ for id_, ids in found.items() if db.skipped.isdisjoint((ids.dag_id, *ids.stage_dag_ids))]
    locked = (await backfills.lock(db, free, skips=True)).values()
    active = [backfill for backfill in locked if backfill.stage_dag_id in wanted and is_decidable(backfill, locked_dags)]
    ended = await backfills.ended_dates(db, [backfill.id for backfill in active], MAX_ENDS)
    on_hold = [backfill for backfill in active if _is_held(backfill.stage_dag_id, locked_dags)]
    edges = {backfill.id: await backfills.edges(db, backfill.dag_id) for backfill in on_hold}
    cascading = [backfill.id for backfill in active if backfill.has_begun_cascade]
    busy, waiting_for_others = await backfills.busy(db, cascading), await backfills.waiting_for_others(db, cascading)
    found_due = [
        msgspec.structs.replace(
            due_of(backfill, locked_dags, ended[backfill.id]),
            edges=edges.get(backfill.id, ()),
            is_busy=not backfill.has_begun_cascade or backfill.id in busy,
            waits_for_others=backfill.id in waiting_for_others,
        )
        for backfill in active
    ]
    stops = await _find_stops(db, [due for due in found_due if due.counted.stop_reason])
    plans = await _find_plans(db, [due for due in found_due if plans_runs(due)], locked_dags)
    waiting = [due for due in found_due if not due.counted.stop_reason and not plans_runs(due)]
    locked_runs = await _lock_runs(db, {*stops.first, *plans.first}, locked_dags)
    return State(db.now, (*waiting, *await _read_stopped(db, stops, locked_runs), *await _read_planning(db, plans, locked_runs)))


def is_decidable(backfill: BackfillView, locked: Locked) -> bool:
    """The runs of a held DAG can be ended only: that needs no version."""
    is_held = _is_held(backfill.dag_id, locked)
    return backfill.state not in BACKFILL_ENDED and (not is_held or backfill.state is BackfillState.CANCELLING)


def _is_held(dag_id: str, locked: Locked) -> bool:
    return dag_id in locked and locked[dag_id].is_held


def due_of(backfill: BackfillView, locked: Locked, ended: tuple[EndedDate, ...]) -> DueBackfill:
    is_gone = backfill.stage_dag_id not in locked
    is_inactive = any(locked[dag_id].is_inactive for dag_id in (backfill.dag_id, backfill.stage_dag_id) if dag_id in locked)
    held = frozenset(dag_id for dag_id in backfill.stages if _is_held(dag_id, locked))
    return DueBackfill(backfill=backfill, is_inactive=is_inactive, is_gone=is_gone, ended=ended, held=held)


def plans_runs(due: DueBackfill) -> bool:
    """Whether its step starts runs, or looks for some."""
    return may_start(due.counted) and not due.is_stage_held and (not due.is_inactive or scans(due.counted))


class _Stops(NamedTuple):
    """Stopped backfills, whether each kills its runs, and the first of their runs that may end.

    `is_cut`: the next step ends others.
    """

    stopped: Sequence[DueBackfill]
    kills: Mapping[int, bool]
    first: Sequence[int]
    is_cut: bool


async def _find_stops(db: Db, stopped: Sequence[DueBackfill]) -> _Stops:
    kills = {due.backfill.id: due.counted.kills for due in stopped}
    active = await backfills.active_runs(db, kills, MAX_ENDS)
    first = await tasks.first_runs(db, active, TASKS_PER_DECISION)
    return _Stops(stopped, kills, first, len(first) < len(active))


async def _read_stopped(db: Db, stops: _Stops, locked: Mapping[int, LockedRun]) -> list[DueBackfill]:
    """The runs that have not ended, and the dates to retry."""
    kills, active = stops.kills, [locked[id_] for id_ in stops.first if id_ in locked]
    ending = [each.run for each in active if ends_with_stop(each, kills=kills.get(each.run.backfill_id or 0, False))]
    ordinals = await backfills.ordinals(db, ending)
    retries = await backfills.retries(db, dict.fromkeys(kills, MAX_ENDS), all_stages=True)
    return [
        msgspec.structs.replace(
            due,
            ending=ordinals.get(due.backfill.id, {}),
            retries=retries[due.backfill.id],
            runs=locked,
            leaves_runs=stops.is_cut and bool(ordinals.get(due.backfill.id)),
        )
        for due in stops.stopped
    ]


class Starts(NamedTuple):
    """The queued runs that start, the dates whose runs run again, and the slots that are left for other dates.

    `is_limited`: the backfill has slots for more runs than one step starts. `is_cut`: the next step runs others again.
    """

    runs: list[RunView]
    retries: Mapping[int, Retry]
    free: int
    is_limited: bool
    is_cut: bool = False

    @property
    def again(self) -> list[int]:
        """The runs that run again."""
        return [retry.dag_run_id for retry in self.retries.values()]

    def cut(self, first: Set[int]) -> "Starts":
        """Without the runs that run again and are not among the first ones."""
        retries = {ordinal: retry for ordinal, retry in self.retries.items() if retry.dag_run_id in first}
        return self._replace(retries=retries, is_cut=len(retries) < len(self.retries))

    def leaves_runs(self, plan: Plan) -> bool:
        """Whether the next step has runs to start without waiting for the end of one."""
        return self.is_cut or (self.is_limited and bool(self.runs or self.retries or plan.dates))


class _Plans(NamedTuple):
    """By id, the backfills that go on, the runs that start, and the next dates; and the first of the runs that run again."""

    going_on: Mapping[int, DueBackfill]
    starts: Mapping[int, Starts]
    plans: Mapping[int, Plan]
    first: Set[int]


async def _find_plans(db: Db, planning: Sequence[DueBackfill], locked_dags: Locked) -> _Plans:
    going_on = await _with_graphs(db, planning, locked_dags)
    starts = await _read_starts(db, going_on)
    dated = {id_: due for id_, due in going_on.items() if has_dates(due)}
    plans = await _plan(db, {id_: _Wanted(due.counted, due.graph, starts[id_].free) for id_, due in dated.items() if due.graph})
    again = list(chain(*(start.again for start in starts.values()), *(plan.again for plan in plans.values())))
    first = set(await tasks.first_runs(db, again, TASKS_PER_DECISION))
    starts = {id_: start.cut(first) for id_, start in starts.items()}
    return _Plans(going_on, starts, {id_: cut_plan(plan, first) for id_, plan in plans.items()}, first)


async def _read_planning(db: Db, found: _Plans, locked: Mapping[int, LockedRun]) -> list[DueBackfill]:
    """The runs that start, the next dates, and the runs of consumers."""
    going_on, starts, plans, _ = found
    graphs = await versions.of_runs(db, [run for start in starts.values() for run in start.runs])
    consumers = await _consumers(db, going_on)
    ids = iter(await dags.reserve(db, sum(plan.new for plan in plans.values())))
    return [
        msgspec.structs.replace(
            due,
            queued_runs=tuple(QueuedRun(run, graphs[run.version_id]) for run in starts[id_].runs),
            retries=starts[id_].retries,
            plan=plans.get(id_, EMPTY_PLAN),
            consumers=consumers.get(id_, ()),
            runs=locked,
            run_ids=tuple(islice(ids, plans.get(id_, EMPTY_PLAN).new)),
            leaves_runs=starts[id_].leaves_runs(plans.get(id_, EMPTY_PLAN)),
        )
        for id_, due in going_on.items()
    ]


async def _read_starts(db: Db, going_on: Mapping[int, DueBackfill]) -> Mapping[int, Starts]:
    of_backfill = await _slots(db, going_on)
    slots = {id_: of_backfill[id_].at_most(most_runs(due.graph) if due.graph else MAX_ENDS) for id_, due in going_on.items()}
    queued = await backfills.queued_runs(db, {id_: (due.backfill.is_reverse, slots[id_].most) for id_, due in going_on.items()})
    runs_of = {id_: startable_runs(slots[id_], queued[id_]) for id_ in going_on}
    room = {id_: slots[id_].most - len(runs_of[id_]) for id_, due in going_on.items() if not scans(due.counted)}
    found = await backfills.retries(db, room)
    retries = {id_: startable_retries(slots[id_], len(runs_of[id_]), found.get(id_, {})) for id_ in going_on}
    left = {id_: slots[id_].free - len(runs_of[id_]) - len(retries[id_]) for id_ in going_on}
    return {id_: Starts(runs_of[id_], retries[id_], left[id_], slots[id_] != of_backfill[id_]) for id_ in going_on}


def has_dates(due: DueBackfill) -> bool:
    """Whether its dates come from a timetable or a list, and start now."""
    return not due.backfill.stage and not due.is_replay and not due.is_inactive


async def _with_graphs(db: Db, planning: Sequence[DueBackfill], locked: Locked) -> dict[int, DueBackfill]:
    """By id, with the version of new runs."""
    alive = [due.backfill for due in planning if not due.is_gone]
    version_ids = {each.id: version_of_runs(each, locked[each.stage_dag_id].version_id) for each in alive}
    graphs = await versions.graphs(db, set(version_ids.values()))
    found = {due.backfill.id: due for due in planning}
    for id_, version_id in version_ids.items():
        graph = graphs[version_id]
        replays = not found[id_].backfill.stage and is_replay(found[id_].backfill, graph)
        found[id_] = msgspec.structs.replace(found[id_], graph=graph, is_replay=replays)
    return found


async def _slots(db: Db, going_on: Mapping[int, DueBackfill]) -> Mapping[int, Slots]:
    """A deleted DAG has no runs, and its dates to retry end at once."""
    starting = {id_: due for id_, due in going_on.items() if not due.is_inactive and due.graph is not None}
    sequential = {id_: due.graph is not None and due.graph.sequential for id_, due in starting.items()}
    active = await backfills.activity(db, sequential)
    others = {id_: Slots(MAX_ENDS if due.is_gone and not due.is_inactive else 0) for id_, due in going_on.items()}
    return others | {id_: slots_of(due.counted, active[id_]) for id_, due in starting.items()}


class _Wanted(NamedTuple):
    """A backfill that is to get its next dates, the version of their runs, and the slots that are free for these."""

    backfill: BackfillView
    graph: Graph
    free: int


async def _plan(db: Db, wanted: Mapping[int, _Wanted]) -> dict[int, Plan]:
    """The next dates of each backfill.

    Once one of the first dates gets no run, many are read at once: it may be so for all.
    """
    plans: dict[int, Plan] = {id_: Plan(more=not each.backfill.is_planned) for id_, each in wanted.items()}
    left = {id_: each for id_, each in wanted.items() if each.free > 0 and not each.backfill.is_planned}
    for least in (0, MAX_DATES):
        most = {id_: max(each.free + 1, least) for id_, each in left.items()}
        ticks = {id_: next_ticks(each.backfill, each.graph, most[id_]) for id_, each in left.items()}
        dates = {(each.backfill.dag_id, tick.logical_date) for id_, each in left.items() for tick in ticks[id_]}
        existing = await backfills.runs_of_dates(db, dates)
        for id_, (backfill, _, free) in left.items():
            plans[id_] = plan_next(backfill, ticks[id_], of_dag(existing, backfill.dag_id), free, most[id_])
        left = {id_: each for id_, each in left.items() if plans[id_].has_free_slots}
    return plans


def of_dag(existing: Mapping[tuple[str, datetime], ExistingRun], dag_id: str) -> Mapping[datetime, ExistingRun]:
    return {date: run for (of_dag_id, date), run in existing.items() if of_dag_id == dag_id}


async def _consumers(db: Db, going_on: Mapping[int, DueBackfill]) -> Mapping[int, tuple[Consumer, ...]]:
    """The runs of the stage that consumed outlets of the next dates; at stage 0 of a replay, the next runs of the DAG."""
    active = [due for due in going_on.values() if not due.is_inactive]
    replays = [due.counted for due in active if due.is_replay and not due.counted.is_planned]
    scanning = {id_: due.backfill for id_, due in going_on.items() if scans(due.counted) and not due.is_gone}
    ranges = {id_: (each.scanned, min(each.scanned + MAX_SCANNED, each.scan_until)) for id_, each in scanning.items()}
    events = {
        OutletEvent(scanning[written.backfill_id].stage_dag_id, outlet_event_id(*written.outlet), written)
        for written in await backfills.rewritten(db, ranges)
    }
    return {**await backfills.replayed(db, replays, MAX_SCANNED), **await backfills.consumers(db, events)}


async def _lock_runs(db: Db, ids: Collection[int], locked_dags: Locked) -> Mapping[int, LockedRun]:
    """All at once, because rows of a table are locked by key. Runs of held DAGs get graphs that are enough to end them."""
    locked = await runs.lock_unread(db, ids)
    held = [run for run in locked.values() if _is_held(run.dag_id, locked_dags)]
    readable = [run for run in locked.values() if not _is_held(run.dag_id, locked_dags)]
    graphs = {**await versions.of_runs(db, readable), **await versions.names_only(db, held)}
    instances = await tasks.of_runs(db, locked)
    return {id_: LockedRun(run, graphs[run.version_id], instances.get(id_, {})) for id_, run in locked.items()}


def decide(_messages: Sequence[Message[BackfillDue]], state: State) -> Iterator[Effect]:
    with Faults() as faults:
        for due in state.due:
            with faults.of(due.backfill.dag_id):
                yield from take_step(due, state.now)
