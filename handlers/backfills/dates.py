"""The dates of a backfill, and whether each gets a run."""

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from tidegate.schemas.backfill import BackfillView, ExistingRun, Reprocess
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RUN_ENDED, RunState
from tidegate.schemas.timetable.between import anchor_of, has_dates, ticks_between
from tidegate.schemas.timetable.tick import INSTANT, Tick, manual_interval

MAX_DATES = 500
"""The most dates that one decision plans."""


class PlannedDate(NamedTuple):
    """A date in the order of planning, counted from 1. `reason` says why it gets no run; None: it gets one."""

    ordinal: int
    tick: Tick
    existing: ExistingRun | None
    reason: str | None

    @property
    def again(self) -> int | None:
        """The existing run that runs again."""
        return self.existing.id if self.existing and self.reason is None else None


def is_replay(backfill: BackfillView, graph: Graph) -> bool:
    """Whether the dates are the runs that the DAG has had: datasets start them, and no timetable gives other dates."""
    return backfill.logical_dates is None and not has_dates(graph.timetable)


def next_ticks(backfill: BackfillView, graph: Graph, most: int) -> Sequence[Tick]:
    """The first dates that are not planned yet. Dates that are not due at the horizon are left out."""
    return list(islice((tick for tick in _left(backfill, graph) if tick.run_after <= backfill.horizon), most))


def _left(backfill: BackfillView, graph: Graph) -> Iterator[Tick]:
    start, end = backfill.start_date, min(backfill.end_date, backfill.horizon)
    if backfill.planned_until is not None and backfill.is_reverse:
        end = min(end, backfill.planned_until - INSTANT)
    elif backfill.planned_until is not None:
        start = max(start, backfill.planned_until + INSTANT)
    if backfill.logical_dates is None:
        anchor = anchor_of(graph.timetable, graph.bounds, backfill.start_date)
        yield from ticks_between(graph.timetable, anchor, start, end, is_reverse=backfill.is_reverse)
    else:
        dates = sorted(backfill.logical_dates, reverse=backfill.is_reverse)
        yield from (_listed(graph, date) for date in dates if start <= date <= end)


def _listed(graph: Graph, date: datetime) -> Tick:
    """The run of a date of an explicit list: one of the timetable, unless it has none or changed since the request."""
    return Tick(date, *manual_interval(graph.timetable, date), date)


def plan_dates(
    backfill: BackfillView, ticks: Sequence[Tick], existing: Mapping[datetime, ExistingRun], slots: int
) -> Sequence[PlannedDate]:
    """The next dates, until `slots` of them have got runs."""
    planned: list[PlannedDate] = []
    for ordinal, tick in enumerate(ticks, backfill.dates + 1):
        run = existing.get(tick.logical_date)
        reason = why_no_run(run, backfill.reprocess)
        if reason is None and slots == 0:
            break
        slots -= reason is None
        planned.append(PlannedDate(ordinal, tick, run, reason))
    return planned


class Plan(msgspec.Struct, frozen=True):
    """The next dates of a backfill. `more`: others follow; `has_free_slots`: some of them could start now."""

    dates: tuple[PlannedDate, ...] = ()
    more: bool = False
    has_free_slots: bool = False

    @property
    def again(self) -> list[int]:
        """The existing runs that run again."""
        return [date.again for date in self.dates if date.again is not None]

    @property
    def new(self) -> int:
        """The number of new runs."""
        return sum(date.existing is None for date in self.dates)


EMPTY_PLAN = Plan()


def plan_next(
    backfill: BackfillView, ticks: Sequence[Tick], existing: Mapping[datetime, ExistingRun], slots: int, most: int
) -> Plan:
    """Plan these dates. Others follow if there are as many as were asked for, `most`."""
    dates = plan_dates(backfill, ticks, existing, slots)
    more = len(dates) < len(ticks) or len(ticks) == most
    return Plan(tuple(dates), more, has_free_slots=more and sum(date.reason is None for date in dates) < slots)


def cut_plan(plan: Plan, first: Set[int]) -> Plan:
    """The dates before the first one whose run runs again and is not among these."""
    dates = tuple(takewhile(lambda date: date.again is None or date.again in first, plan.dates))
    return plan if len(dates) == len(plan.dates) else Plan(dates, more=True, has_free_slots=True)


def why_active(run_id: str, state: RunState) -> str:
    """The reason of a date whose run has not ended."""
    return f"its run {run_id!r} is {state}"


def why_no_run(existing: ExistingRun | None, reprocess: Reprocess) -> str | None:
    """Why a date gets no run; None if it gets a new one, or its run runs again."""
    if existing is None:
        return None
    if existing.state not in RUN_ENDED:
        return why_active(existing.run_id, existing.state)
    if reprocess is Reprocess.COMPLETED or (reprocess is Reprocess.FAILED and existing.state is RunState.FAILED):
        return None
    return f"its run {existing.run_id!r} ended as {existing.state}; reprocess={reprocess} leaves it"
