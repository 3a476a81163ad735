"""Timed runs: one for each tick of a DAG's timetable."""

from datetime import datetime

import msgspec

from tidegate.handlers.runs.create import queued_run
from tidegate.handlers.runs.run_ids import scheduled_run_id
from tidegate.schemas.graph import bounds_of
from tidegate.schemas.read_plan import MAX_RUN_DATES
from tidegate.schemas.state import RunType
from tidegate.schemas.timetable.spec import Continuous, Once
from tidegate.schemas.timetable.tick import Tick, next_tick, was_missed
from tidegate.schemas.view import DagView, RunView


def upcoming_tick(dag: DagView, now: datetime) -> Tick | None:
    """The next tick whose logical date has no run yet, or is later than the dates that were read."""
    return _next_ticks(dag, now)[1] if dag.graph.timetable is not None else None


def _next_ticks(dag: DagView, now: datetime) -> tuple[Tick | None, Tick | None]:
    """The last tick before the upcoming one, and the upcoming one."""
    tick, bounds = dag.last_tick, bounds_of(dag.graph, dag.timed_since or now)
    while True:
        before, tick = tick, next_tick(dag.graph.timetable, tick, bounds, now)
        if tick is None or tick == before or not _has_run(dag, tick.logical_date):
            return before, tick


def _has_run(dag: DagView, date: datetime) -> bool:
    """Dates up to the last tick count as decided: a changed timetable may return to them."""
    return date in dag.run_dates or (dag.last_tick is not None and date <= dag.last_tick.logical_date)


def tick_before_edit(before: DagView, edited: DagView, now: datetime) -> Tick | None:
    """The tick of a changed timetable that was due before the edit, and makes no run. None where one may be due.

    A DAG with catchup makes all its runs, and `run_immediately` decides about the first timetable of a DAG. A tick that was due
    by the former timetable still makes a run, that of the new one.
    """
    former, new = before.graph, edited.graph
    if (new.timetable, new.bounds) == (former.timetable, former.bounds) or new.bounds.missed == "all":
        return None
    is_first = former.timetable is None and before.last_tick is None
    if is_first or isinstance(new.timetable, Once | Continuous) or (_due_tick(before, now) and not former.is_continuous):
        return None
    return _due_tick(edited, now)


def _due_tick(dag: DagView, now: datetime) -> Tick | None:
    tick = upcoming_tick(dag, now)
    return tick if tick and tick.run_after <= now else None


def after_passed_ticks(dag: DagView, now: datetime) -> DagView:
    """The DAG after the ticks that have a run, if not all dates with a run were read. The next decision reads the others."""
    if len(dag.run_dates) < MAX_RUN_DATES:
        return dag
    passed, _ = _next_ticks(dag, now)
    return msgspec.structs.replace(dag, last_tick=passed) if passed is not None and passed.run_after <= now else dag


def may_start(dag: DagView, tick: Tick, now: datetime) -> bool:
    """Whether the run of the upcoming tick starts in this decision: it is due, and known to have no run."""
    is_known = len(dag.run_dates) < MAX_RUN_DATES or tick.logical_date <= max(dag.run_dates)
    return is_known and is_due(dag, tick, now)


def is_due(dag: DagView, tick: Tick, now: datetime) -> bool:
    """Whether the tick's run may start now. A catchup interval delays missed ticks."""
    return tick.run_after <= now and not (catchup_resumes_at(dag, now) and was_missed(tick, now))


def catchup_resumes_at(dag: DagView, now: datetime) -> datetime | None:
    """The end of the catchup interval after the last late timed run; None if it has passed."""
    interval, until = dag.graph.catchup_interval, dag.catchup_until
    return until if interval and until and now < until <= now + interval else None


def timed_run(dag: DagView, tick: Tick) -> RunView:
    """The run of a tick, with the first reserved id."""
    run_id = scheduled_run_id(tick.logical_date)
    return queued_run(dag.timed_run_ids[0], dag.graph, run_id, RunType.SCHEDULED, tick.run_after, tick=tick)


def after_tick(dag: DagView, tick: Tick, now: datetime) -> DagView:
    """The DAG after the run of a tick. A decision starts at most one run of a continuous timetable."""
    run_ids = () if dag.graph.is_continuous else dag.timed_run_ids[1:]
    interval = dag.graph.catchup_interval
    until = now + interval if interval and was_missed(tick, now) else dag.catchup_until
    return msgspec.structs.replace(dag, last_tick=tick, timed_run_ids=run_ids, catchup_until=until)
