"""The next runs of a DAG: every message that may let a run start calls this module last."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidegate.handlers.scheduling.dataset_runs import discard_rejected
from tidegate.handlers.scheduling.late_inputs import skip_or_alert, start_daily_deadlines
from tidegate.handlers.scheduling.round_robin import start_runs
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.timetable import after_passed_ticks, upcoming_tick
from tidegate.handlers.scheduling.wakeup import left_events, next_wakeup
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import CountFailures, SetPaused, UpdateSchedule
from tidegate.schemas.error import Faults, blame
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, RunView

FIRST_RUNNING_SEQ = 2
"""The sequence number of a run's second state. The states are queued and running, until it has ended and is cleared."""


class RunEnd(NamedTuple):
    """The end of a running run of a DAG. One that `ended_before` was cleared."""

    state: RunState
    ended_before: bool = False


def end_of(run: RunView, state: RunState) -> RunEnd:
    """The end of a running run."""
    return RunEnd(state, run.state_seq > FIRST_RUNNING_SEQ)


def schedule_next_runs(dag: DagView, now: datetime, *, stored: DagView | None = None) -> Iterator[Effect]:
    """Discard rejected events, start runs while there is capacity, and set the next wake-up. Raises DagFaultError.

    `stored`: the DAG as it was read, where the message has changed its last tick.
    """
    with blame(dag.graph.dag_id):
        yield from _schedule(dag, now, stored)


def schedule_each(dags: Iterable[DagView], now: datetime) -> Iterator[Effect]:
    """As `schedule_next_runs`, for each DAG. A fault of one is raised after the decisions about all."""
    with Faults() as faults:
        for dag in dags:
            with faults.of(dag.graph.dag_id):
                yield from _schedule(dag, now)


def schedule_each_after_ends(dags: Iterable[DagView], ended: Mapping[str, Sequence[RunEnd]], now: datetime) -> Iterator[Effect]:
    """As `schedule_after_ends`, for each DAG. A fault of one is raised after the decisions about all."""
    with Faults() as faults:
        for dag in dags:
            with faults.of(dag.graph.dag_id):
                yield from _schedule_after_ends(dag, ended.get(dag.graph.dag_id, ()), now)


def _schedule(dag: DagView, now: datetime, stored: DagView | None = None) -> Iterator[Effect]:
    before, stored = dag, stored or dag
    dag = start_daily_deadlines((yield from discard_rejected(dag, _inspection_time(dag, now))), now)
    if not dag.is_inactive:
        # `next_run_id` came with the lock of the row: the usual single dataset run costs no statement for its id.
        dag = msgspec.structs.replace(dag, event_run_ids=(dag.next_run_id, *dag.event_run_ids))
        dag = yield from start_runs(dag, now)
        dag = after_passed_ticks(dag, now)
        if dag.graph.requires_both:
            dag = yield from discard_rejected(dag, now)
        if not left_events(before, dag):
            dag = yield from skip_or_alert(dag, now)
    after = set_wakeup(dag, next_wakeup(before, dag, now))
    if after != set_wakeup(stored, stored.due_at):
        yield after


def _inspection_time(dag: DagView, now: datetime) -> datetime:
    """Now; for a DAG that requires both, at most the next tick: an event that expires after the tick still counts for it."""
    tick = upcoming_tick(dag, now) if dag.graph.requires_both and not dag.is_inactive else None
    return min(now, tick.run_after) if tick else now


def schedule_after_ends(dag: DagView, ended: Sequence[RunEnd], now: datetime) -> Iterator[Effect]:
    """As `schedule_next_runs`, after running runs of the DAG ended. `max_failed_runs` consecutive failures pause the DAG."""
    with blame(dag.graph.dag_id):
        yield from _schedule_after_ends(dag, ended, now)


def _schedule_after_ends(dag: DagView, ended: Sequence[RunEnd], now: datetime) -> Iterator[Effect]:
    if not ended:
        return
    was_full = not has_capacity(dag)
    dag = msgspec.structs.replace(dag, running=dag.running - len(ended), was_full=was_full)
    failed, is_limit_reached = _count_failures(dag, ended)
    if dag.graph.max_failed_runs and failed != dag.failed_runs:
        yield CountFailures(dag.graph.dag_id, failed)
    if is_limit_reached and not dag.is_paused:
        yield SetPaused(dag.graph.dag_id, is_paused=True)
        dag = msgspec.structs.replace(dag, is_paused=True)
    yield from _schedule(dag, now)


def _count_failures(dag: DagView, ended: Sequence[RunEnd]) -> tuple[int, bool]:
    """The failed runs since the last success, and whether they have reached the limit. A run that fails again counts once."""
    failed, is_limit_reached = dag.failed_runs, False
    for end in ended:
        if end.state is not RunState.FAILED:
            failed = 0
        elif not end.ended_before:
            failed += 1
            is_limit_reached = is_limit_reached or 0 < dag.graph.max_failed_runs <= failed
    return failed, is_limit_reached


def after_corrected_failure(dag: DagView) -> Iterator[CountFailures]:
    """The count after a failed run was marked as succeeded."""
    if dag.failed_runs:
        yield CountFailures(dag.graph.dag_id, 0)


def set_wakeup(dag: DagView, at: datetime | None) -> UpdateSchedule:
    """The schedule of the DAG with its next wake-up; None: only messages cause decisions."""
    date, start, end = dag.last_tick[:3] if dag.last_tick else (None, None, None)
    times = dag.dataset_run_at, dag.deadline_at
    return UpdateSchedule(dag.graph.dag_id, date, start, end, at, *times, dag.last_source, dag.catchup_until)
