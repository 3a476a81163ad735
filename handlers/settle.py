"""What a DAG does next, given all that waits for it: start queued runs, make timed and dataset runs, or nothing.

Every message that may open a gate ends here, so that a DAG's next step is decided in one place.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.gate import Open, gate
from tidegate.handlers.start import create, ends_at_once, promote, queued_run
from tidegate.schemas.dag import leaves
from tidegate.schemas.effect import ConsumeEvents, CountFailures, DiscardEvents, Effect, SetClock, SetPaused
from tidegate.schemas.graph import Graph, bounds_of
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.tick import Tick, next_tick, was_missed
from tidegate.schemas.timetable import Continuous
from tidegate.schemas.view import DagView, PendingEvent, RunView

NOT_SCHEDULED = "the DAG is no longer scheduled on this dataset"


def settle(dag: DagView, now: datetime) -> Iterator[Effect]:
    """Start what may start: queued runs in their order, then timed runs and a run of everything pending, longest due first."""
    yield from _discard(dag)
    before, dag = dag, msgspec.structs.replace(dag, pending=wanted(dag))
    if dag.is_held:
        yield from _set_clock(before, dag, None)
        return
    for queued in dag.waiting:
        if dag.running < dag.graph.max_active_runs:
            yield from promote(queued.run, queued.graph, now)
            dag = _started(dag, queued.run, queued.graph, queued=-1)
    tick = following(dag, now)
    if isinstance(gate(dag), Open) and _is_first(dag.pending, tick):
        run = dataset_run(dag)
        yield from consume(run, dag, now)
        dag = _started(msgspec.structs.replace(dag, pending=()), run, dag.graph)
    ids, resume = iter(_tick_run_ids(dag)), _paced_until(dag, now)
    while tick is not None and _is_due(tick, resume, now) and _has_room(dag) and (id_ := next(ids, None)) is not None:
        run = timed_run(id_, dag, tick)
        yield from create(run, {}, dag.graph, now, started=True)
        if dag.graph.pace and was_missed(tick, now):
            resume = now + dag.graph.pace
        dag = _started(msgspec.structs.replace(dag, last_tick=tick), run, dag.graph)
        tick = following(dag, now)
    if isinstance(gate(dag), Open):
        run = dataset_run(dag)
        yield from consume(run, dag, now)
        dag = _started(dag, run, dag.graph)
    yield from _set_clock(before, dag, _next_look(dag, tick, resume, now))


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


def following(dag: DagView, now: datetime) -> Tick | None:
    """The next tick of the timetable that has no run yet."""
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


def wanted(dag: DagView) -> tuple[PendingEvent, ...]:
    """The pending events of datasets that the DAG's condition mentions."""
    uris = leaves(dag.graph.schedule) if dag.graph.schedule is not None else frozenset()
    return tuple(event for event in dag.pending if event.uri in uris)


def dataset_run(dag: DagView) -> RunView:
    """The run of everything pending."""
    run_after = max(event.occurred_at for event in dag.pending)
    return queued_run(dag.next_run_id, dag.graph, dataset_run_id(run_after, dag.pending), RunType.DATASET, run_after)


def consume(run: RunView, dag: DagView, now: datetime) -> Iterator[Effect]:
    """Start the run of everything pending."""
    yield from create(run, {}, dag.graph, now, started=True)
    yield ConsumeEvents(dag.graph.dag_id, run.id, dag.pending)


def dataset_run_id(run_after: datetime, events: Sequence[PendingEvent]) -> str:
    """`dataset__<time>_<hash of the consumed events>`: two runs never consume the same event, so it is unique.

    Producers that stamp all their events with one time leave it to the hash alone: it must not be short.
    """
    consumed = ",".join(str(event.dataset_event_id) for event in events)
    return f"dataset__{run_after.astimezone(UTC).isoformat()}_{uuid5(NAMESPACE_OID, consumed).hex[:16]}"


def _is_first(pending: Sequence[PendingEvent], tick: Tick | None) -> bool:
    """Whether events have waited for longer than a timed run: neither kind can starve the other."""
    return tick is None or min(event.occurred_at for event in pending) < tick.run_after


def _tick_run_ids(dag: DagView) -> Sequence[int]:
    """For as many timed runs as may start now; of those that follow each other's ends that is one."""
    return dag.tick_run_ids[:1] if isinstance(dag.graph.timetable, Continuous) else dag.tick_run_ids


def _has_room(dag: DagView) -> bool:
    """Whether one more timed run may start. One that follows the end of another has its DAG to itself."""
    limit = 1 if isinstance(dag.graph.timetable, Continuous) else dag.graph.max_active_runs
    return dag.running + dag.queued < limit


def _started(dag: DagView, run: RunView, graph: Graph, *, queued: int = 0) -> DagView:
    """The DAG with one more run at work, unless that ended as soon as it started."""
    return msgspec.structs.replace(dag, running=dag.running + (not ends_at_once(run, graph)), queued=dag.queued + queued)


def _paced_until(dag: DagView, now: datetime) -> datetime | None:
    """Until when no late timed run starts, because one just did. That moment is kept as the clock's next look at the DAG."""
    pace = dag.graph.pace
    return dag.due_at if pace and dag.due_at and now < dag.due_at <= now + pace else None


def _is_due(tick: Tick, resume: datetime | None, now: datetime) -> bool:
    return tick.run_after <= now and not (resume and was_missed(tick, now))


def _next_look(dag: DagView, tick: Tick | None, resume: datetime | None, now: datetime) -> datetime | None:
    """When the clock is to come again. While there is no room the end of a run will do."""
    moments = [moment for moment in (dag.next_queued_at, _tick_look(dag, tick, resume, now)) if moment is not None]
    if dag.queued and dag.running < dag.graph.max_active_runs:
        moments.append(now)  # Fewer were read than can start: some ended as soon as they did.
    return min(moments, default=None)


def _tick_look(dag: DagView, tick: Tick | None, resume: datetime | None, now: datetime) -> datetime | None:
    if tick is None or tick.run_after > now:
        return tick and tick.run_after
    if resume and was_missed(tick, now):
        return resume
    return tick.run_after if _has_room(dag) else None


def _set_clock(before: DagView, dag: DagView, due_at: datetime | None) -> Iterator[SetClock]:
    if (before.last_tick, before.due_at) != (dag.last_tick, due_at):
        yield look_at(dag, due_at)


def look_at(dag: DagView, at: datetime | None) -> SetClock:
    """The clock is to look at the DAG then; None: something else will."""
    date, start, end = dag.last_tick[:3] if dag.last_tick else (None, None, None)
    return SetClock(dag.graph.dag_id, date, start, end, at)


def _discard(dag: DagView) -> Iterator[Effect]:
    kept = set(wanted(dag))
    left = tuple(event for event in dag.pending if event not in kept)
    if left:
        yield DiscardEvents(dag.graph.dag_id, left, NOT_SCHEDULED)
