"""What a DAG does next, given all that waits for it: start queued runs, make timed and dataset runs, or nothing.

Every message that may open a gate ends here, so that a DAG's next step is decided in one place.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.dataset_runs import sifted
from tidegate.handlers.scheduling.late_inputs import past_deadline, watched
from tidegate.handlers.scheduling.round_robin import start_runs
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.timetable import following, is_due, paced_until
from tidegate.handlers.scheduling.wakeup import looks
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import CountFailures, SetClock, SetPaused
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView


def settle(dag: DagView, now: datetime) -> Iterator[Effect]:
    """Start what may start: runs that are queued, of everything pending, and of the timetable, in turns."""
    before = dag
    dag = watched((yield from sifted(dag, _sift_at(dag, now))), now)
    if dag.is_held:
        yield from _set_clock(before, dag, min(looks(before, dag, now), default=None) if dag.graph.inspects_events else None)
        return
    dag = msgspec.structs.replace(dag, event_run_ids=(dag.next_run_id, *dag.event_run_ids))
    dag = yield from start_runs(dag, now)
    if dag.graph.requires_both:
        dag = yield from sifted(dag, now)
    dag = yield from past_deadline(dag, now)
    yield from _set_clock(before, dag, _next_look(before, dag, now))


def _sift_at(dag: DagView, now: datetime) -> datetime:
    """What expires before the next tick is no input of that one, but what expires after it is."""
    tick = following(dag, now) if dag.graph.requires_both and not dag.is_held else None
    return min(now, tick.run_after) if tick else now


def settle_after(dag: DagView, ended: Sequence[RunState], now: datetime) -> Iterator[Effect]:
    """What a DAG does after these of its running runs ended. Too many failures in a row pause it."""
    if not ended:
        return
    dag = msgspec.structs.replace(dag, running=dag.running - len(ended))
    failed, limit = dag.failed_runs, dag.graph.max_failed_runs
    too_many = False
    for state in ended:
        failed = failed + 1 if state is RunState.FAILED else 0
        too_many = too_many or 0 < limit <= failed
    if limit and failed != dag.failed_runs:
        yield CountFailures(dag.graph.dag_id, failed)
    if too_many and not dag.is_paused:
        yield SetPaused(dag.graph.dag_id, is_paused=True)
        dag = msgspec.structs.replace(dag, is_paused=True)
    yield from settle(dag, now)


def _next_look(before: DagView, dag: DagView, now: datetime) -> datetime | None:
    """When the clock is to come again. While there is no room the end of a run will do."""
    moments = [moment for moment in (dag.next_queued_at, _tick_look(dag, now)) if moment is not None]
    if dag.queued and has_capacity(dag):
        moments.append(now)  # Fewer were read than can start: some ended as soon as they did.
    if dag.graph.inspects_events:
        moments += looks(before, dag, now)
    return min(moments, default=None)


def _tick_look(dag: DagView, now: datetime) -> datetime | None:
    tick = following(dag, now)
    if tick is None or tick.run_after > now:
        return tick and tick.run_after
    if not is_due(dag, tick, now):
        return paced_until(dag, now)
    return tick.run_after if has_capacity(dag) else None


def _set_clock(before: DagView, dag: DagView, due_at: datetime | None) -> Iterator[SetClock]:
    after = look_at(dag, due_at)
    if after != look_at(before, before.due_at):
        yield after


def look_at(dag: DagView, at: datetime | None) -> SetClock:
    """The clock is to look at the DAG then; None: something else will."""
    date, start, end = dag.last_tick[:3] if dag.last_tick else (None, None, None)
    return SetClock(dag.graph.dag_id, date, start, end, at, dag.dataset_run_at, dag.deadline_at, dag.turn)
