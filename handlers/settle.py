"""What a DAG does next, given all that waits for it: start queued runs, make timed and dataset runs, or nothing.

Every message that may open a gate ends here, so that a DAG's next step is decided in one place.
"""

from collections.abc import Generator, Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.consume import Step, dataset_run, sifted, started
from tidegate.handlers.fallback import past_deadline
from tidegate.handlers.gate import gate
from tidegate.handlers.joint import joint_ticks
from tidegate.handlers.judge import Open
from tidegate.handlers.look import looks
from tidegate.handlers.start import create, promote
from tidegate.handlers.tick import following, has_room, tick_run_ids, timed_run
from tidegate.schemas.effect import CountFailures, Effect, SetClock, SetPaused
from tidegate.schemas.state import RunState
from tidegate.schemas.tick import Tick, was_missed
from tidegate.schemas.view import DagView, PendingEvent


def settle(dag: DagView, now: datetime) -> Iterator[Effect]:
    """Start what may start: queued runs in their order, then timed runs and a run of everything pending, longest due first."""
    before, tick = dag, None if dag.is_held else following(dag, now)
    dag = yield from sifted(dag, min(now, tick.run_after) if tick and dag.graph.together else now)
    if dag.is_held:
        yield from _set_clock(before, dag, min(looks(before, dag, now), default=None) if dag.graph.sifts else None)
        return
    dag = yield from _promoted(dag, now)
    ids = iter((dag.next_run_id, *dag.event_run_ids))
    dag = yield from _dataset_runs(dag, ids, now, tick)
    resume = None
    if dag.graph.together:
        dag = yield from joint_ticks(dag, tick, now)
    else:
        dag, resume = yield from _ticks(dag, tick, now)
    dag = yield from _dataset_runs(dag, ids, now)
    dag = yield from past_deadline(dag, ids, now)
    yield from _set_clock(before, dag, _next_look(before, dag, resume, now))


def _promoted(dag: DagView, now: datetime) -> Step:
    for queued in dag.waiting:
        if dag.running < dag.graph.max_active_runs:
            yield from promote(queued.run, queued.graph, now)
            dag = started(dag, queued.run, queued.graph, queued=-1)
    return dag


def _dataset_runs(dag: DagView, ids: Iterator[int], now: datetime, tick: Tick | None = None) -> Step:
    """Runs of what is pending, while the gate is open. With a tick: only if events have waited for longer than that."""
    while isinstance(verdict := gate(dag, now), Open) and _is_first(verdict.events, tick):
        id_ = next(ids, None)
        if id_ is None:
            break
        dag = yield from dataset_run(dag, id_, verdict, now)
    return dag


def _ticks(dag: DagView, tick: Tick | None, now: datetime) -> Generator[Effect, None, tuple[DagView, datetime | None]]:
    """Runs of the ticks that are due, while there is room; until when no late one starts any more."""
    ids, resume = iter(tick_run_ids(dag)), _paced_until(dag, now)
    while tick is not None and _is_due(tick, resume, now) and has_room(dag) and (id_ := next(ids, None)) is not None:
        run = timed_run(id_, dag, tick)
        yield from create(run, {}, dag.graph, now, started=True)
        if dag.graph.pace and was_missed(tick, now):
            resume = now + dag.graph.pace
        dag = started(msgspec.structs.replace(dag, last_tick=tick), run, dag.graph)
        tick = following(dag, now)
    return dag, resume


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


def _is_first(pending: Sequence[PendingEvent], tick: Tick | None) -> bool:
    """Whether events have waited for longer than a timed run: neither kind can starve the other."""
    return tick is None or min(event.occurred_at for event in pending) < tick.run_after


def _paced_until(dag: DagView, now: datetime) -> datetime | None:
    """Until when no late timed run starts, because one just did. That moment is kept as the clock's next look at the DAG."""
    pace = dag.graph.pace
    return dag.due_at if pace and dag.due_at and now < dag.due_at <= now + pace else None


def _is_due(tick: Tick, resume: datetime | None, now: datetime) -> bool:
    return tick.run_after <= now and not (resume and was_missed(tick, now))


def _next_look(before: DagView, dag: DagView, resume: datetime | None, now: datetime) -> datetime | None:
    """When the clock is to come again. While there is no room the end of a run will do."""
    moments = [moment for moment in (dag.next_queued_at, _tick_look(dag, resume, now)) if moment is not None]
    if dag.queued and dag.running < dag.graph.max_active_runs:
        moments.append(now)  # Fewer were read than can start: some ended as soon as they did.
    if dag.graph.sifts:
        moments += looks(before, dag, now)
    return min(moments, default=None)


def _tick_look(dag: DagView, resume: datetime | None, now: datetime) -> datetime | None:
    tick = following(dag, now)
    if tick is None or tick.run_after > now:
        return tick and tick.run_after
    if resume and was_missed(tick, now):
        return resume
    return tick.run_after if has_room(dag) else None


def _set_clock(before: DagView, dag: DagView, due_at: datetime | None) -> Iterator[SetClock]:
    if (before.last_tick, before.due_at, before.dataset_run_at, before.deadline_at) != (
        *(dag.last_tick, due_at),
        *(dag.dataset_run_at, dag.deadline_at),
    ):
        yield look_at(dag, due_at)


def look_at(dag: DagView, at: datetime | None) -> SetClock:
    """The clock is to look at the DAG then; None: something else will."""
    date, start, end = dag.last_tick[:3] if dag.last_tick else (None, None, None)
    return SetClock(dag.graph.dag_id, date, start, end, at, dag.dataset_run_at, dag.deadline_at)
