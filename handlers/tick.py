"""Runs that follow from a DAG's timetable."""

from collections.abc import Sequence
from datetime import datetime

from tidegate.handlers.start import queued_run
from tidegate.schemas.graph import bounds_of
from tidegate.schemas.state import RunType
from tidegate.schemas.tick import Tick, next_tick
from tidegate.schemas.timetable import Continuous
from tidegate.schemas.view import DagView, RunView


def following(dag: DagView, now: datetime) -> Tick | None:
    """The next tick of the timetable that has no run yet."""
    if dag.graph.timetable is None:
        return None
    tick, bounds = dag.last_tick, bounds_of(dag.graph, dag.timed_since or now)
    while True:
        before, tick = tick, next_tick(dag.graph.timetable, tick, bounds, now)
        if tick is None or tick == before or not _has_run(dag, tick.logical_date):
            return tick


def _has_run(dag: DagView, date: datetime) -> bool:
    """Also where a changed timetable comes back to dates that it had before."""
    return date in dag.taken or (dag.last_tick is not None and date <= dag.last_tick.logical_date)


def timed_run(id_: int, dag: DagView, tick: Tick) -> RunView:
    """The run of a tick."""
    run_id = f"scheduled__{tick.logical_date.isoformat()}"
    return queued_run(id_, dag.graph, run_id, RunType.SCHEDULED, tick.run_after, tick=tick)


def tick_run_ids(dag: DagView) -> Sequence[int]:
    """For as many timed runs as may start now; of those that follow each other's ends that is one."""
    return dag.tick_run_ids[:1] if isinstance(dag.graph.timetable, Continuous) else dag.tick_run_ids


def has_room(dag: DagView) -> bool:
    """Whether one more timed run may start. One that follows the end of another has its DAG to itself."""
    limit = 1 if isinstance(dag.graph.timetable, Continuous) else dag.graph.max_active_runs
    return dag.running + dag.queued < limit
