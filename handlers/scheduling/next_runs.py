"""The next runs of a DAG: every message that may let a run start calls this module last."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.dataset_runs import discard_rejected
from tidegate.handlers.scheduling.late_inputs import skip_or_alert, start_daily_deadlines
from tidegate.handlers.scheduling.round_robin import start_runs
from tidegate.handlers.scheduling.timetable import upcoming_tick
from tidegate.handlers.scheduling.wakeup import left_events, next_wakeup
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import CountFailures, SetPaused, UpdateSchedule
from tidegate.schemas.error import blame
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView


def schedule_next_runs(dag: DagView, now: datetime) -> Iterator[Effect]:
    """Discard rejected events, start runs while there is capacity, and set the next wake-up. Raises DagFaultError."""
    with blame(dag.graph.dag_id):
        yield from _schedule(dag, now)


def _schedule(dag: DagView, now: datetime) -> Iterator[Effect]:
    before = dag
    dag = start_daily_deadlines((yield from discard_rejected(dag, _inspection_time(dag, now))), now)
    if not dag.is_inactive:
        # `next_run_id` came with the lock of the row: the usual single dataset run costs no statement for its id.
        dag = msgspec.structs.replace(dag, event_run_ids=(dag.next_run_id, *dag.event_run_ids))
        dag = yield from start_runs(dag, now)
        if dag.graph.requires_both:
            dag = yield from discard_rejected(dag, now)
        if not left_events(before, dag):
            dag = yield from skip_or_alert(dag, now)
    clock = set_wakeup(dag, next_wakeup(before, dag, now))
    if clock != set_wakeup(before, before.due_at):
        yield clock


def _inspection_time(dag: DagView, now: datetime) -> datetime:
    """Now; for a DAG that requires both, at most the next tick: an event that expires after the tick still counts for it."""
    tick = upcoming_tick(dag, now) if dag.graph.requires_both and not dag.is_inactive else None
    return min(now, tick.run_after) if tick else now


def schedule_after_ends(dag: DagView, ended: Sequence[RunState], now: datetime) -> Iterator[Effect]:
    """As `schedule_next_runs`, after running runs of the DAG ended. `max_failed_runs` consecutive failures pause the DAG."""
    if not ended:
        return
    dag = msgspec.structs.replace(dag, running=dag.running - len(ended))
    failed, limit = dag.failed_runs, dag.graph.max_failed_runs
    is_limit_reached = False
    for state in ended:
        failed = failed + 1 if state is RunState.FAILED else 0
        is_limit_reached = is_limit_reached or 0 < limit <= failed
    if limit and failed != dag.failed_runs:
        yield CountFailures(dag.graph.dag_id, failed)
    if is_limit_reached and not dag.is_paused:
        yield SetPaused(dag.graph.dag_id, is_paused=True)
        dag = msgspec.structs.replace(dag, is_paused=True)
    yield from schedule_next_runs(dag, now)


def set_wakeup(dag: DagView, at: datetime | None) -> UpdateSchedule:
    """The schedule of the DAG with its next wake-up; None: only messages cause decisions."""
    date, start, end = dag.last_tick[:3] if dag.last_tick else (None, None, None)
    return UpdateSchedule(dag.graph.dag_id, date, start, end, at, dag.dataset_run_at, dag.deadline_at, dag.last_source)
