"""How many queued runs and pending events of a DAG its next decision reads.

Queues grow without bound while a DAG cannot use them. A decision therefore reads only the queued runs that it may start, and
pending events only if they may start a run, or if time, a tick or the end of a run may change their outcome. It
reads the oldest events, as many as a run consumes, and the oldest of each dataset; it reads more if these do not meet a condition
that inspects events, although every dataset that it needs has one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import rate_limited
from tidegate.handlers.scheduling.inputs import inspect_events
from tidegate.schemas.conditions.condition import DatasetRef, PatternRef, met_by_uris
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.explain.reasons import InputsMissing, OutsideWindow
from tidegate.schemas.graph import Graph, bounds_of
from tidegate.schemas.read_plan import MAX_READ_BYTES, MAX_READ_EVENTS, RUN_EVENTS, EventKey, EventPlan, ReadPlan
from tidegate.schemas.timetable.tick import next_tick
from tidegate.schemas.view import DagActivity, DagView, LockedDag

MAX_RUNS = 100
"""The maximum of runs of a DAG that one transaction starts of each kind: queued runs, timed runs, and runs of one event each."""

TASKS_PER_DECISION = 20_000
"""The most tasks of these runs together, unless it is one run: a statement has ten seconds."""

REMEDY = "let its events expire, or change the condition"


class ReadReason(msgspec.Struct, frozen=True):
    """Why DAGs are read.

    `everything`: the decision may change the version or the pause of the DAG, so queued runs and the oldest events are read
    whatever the slots.
    `ending_runs`: by DAG, the maximum of running runs that this transaction ends. `just_arrived`: by DAG, the events that this
    transaction queued for DAGs that inspect events; None: it queued none.
    """

    everything: bool = False
    ending_runs: Mapping[str, int] = {}
    just_arrived: Mapping[str, Sequence[EventKey]] | None = None


def read_plan(dag: LockedDag, activity: DagActivity, reason: ReadReason, now: datetime, run_events: int = RUN_EVENTS) -> ReadPlan:
    dag_id, graph = dag.graph.dag_id, dag.graph
    slots = max(graph.max_active_runs - activity.running + reason.ending_runs.get(dag_id, 0), 0)
    timed_runs, first_date = _timed_runs(dag, slots, now)
    event_slots = 0 if graph.requires_both else min(slots, most_runs(graph))
    arrived = reason.just_arrived or {}
    return ReadPlan(
        queued_runs=_queued_runs(graph, activity, slots, reason),
        timed_runs=timed_runs,
        dates_since=None if reason.everything else first_date,  # A new version may have earlier ticks.
        events=_event_plan(dag, reason, event_slots, timed_runs, now, run_events) if activity.has_pending else None,
        event_runs=event_slots if graph.one_run_per_event else 1,
        just_arrived=arrived.get(dag_id, ()) if graph.inspects_events else (),
    )


def most_runs(graph: Graph) -> int:
    """The maximum of runs of a DAG that one decision starts of each kind. The next decision follows at once."""
    return max(min(MAX_RUNS, TASKS_PER_DECISION // max(len(graph.nodes), 1)), 1)


def _queued_runs(graph: Graph, activity: DagActivity, slots: int, reason: ReadReason) -> int:
    """Runs that end when they start occupy no slot: more of these may start than slots are free."""
    most = min(activity.queued, most_runs(graph))
    return most if reason.everything or (slots and graph.ends_at_once) else min(slots, most)


def _timed_runs(dag: LockedDag, slots: int, now: datetime) -> tuple[int, datetime | None]:
    """The number of runs that the timetable may start now, and the logical date of the first tick that may have none."""
    if dag.graph.timetable is None or dag.is_inactive or not slots:
        return 0, None
    tick = next_tick(dag.graph.timetable, dag.last_tick, bounds_of(dag.graph, dag.timed_since or now), now)
    return (0, None) if tick is None or tick.run_after > now else (min(slots, most_runs(dag.graph)), tick.logical_date)


def _event_plan(
    dag: LockedDag, reason: ReadReason, slots: int, timed_runs: int, now: datetime, run_events: int
) -> EventPlan | None:
    graph = dag.graph
    if _needs_events_anyway(dag, reason, timed_runs, now):
        return EventPlan(with_details=True, limit=run_events, of_each=True)
    if not slots or dag.is_inactive or _only_arrivals_matter(dag, reason, now):
        return None
    return EventPlan(
        only_if_met=None if _has_one_input(graph) else graph.schedule,
        with_details=graph.inspects_events,
        limit=slots + 1 if graph.one_run_per_event else run_events,  # One more shows whether events are left.
        of_each=not _has_one_input(graph),
        with_rest=not graph.one_run_per_event,
    )


def _only_arrivals_matter(dag: LockedDag, reason: ReadReason, now: datetime) -> bool:
    """Whether the clock visits the DAG before its timing allows a run with the events that arrived. They are only inspected."""
    if not reason.just_arrived or dag.graph.dag_id not in reason.just_arrived or dag.graph.timing.deadline is not None:
        return False
    return dag.due_at is not None and now < dag.due_at <= _earliest_run(dag, now)


def _earliest_run(dag: LockedDag, now: datetime) -> datetime:
    """The first time at which an event that arrives now may start a run."""
    timing = dag.graph.timing
    wait_s = min((wait for wait in (timing.quiet_for_s, timing.max_wait_s) if wait is not None), default=0)
    limited = rate_limited(dag.graph, now, dag.dataset_run_at)
    return max(now + timedelta(seconds=wait_s), limited.until if limited else now)


def _needs_events_anyway(dag: LockedDag, reason: ReadReason, timed_runs: int, now: datetime) -> bool:
    """Whether events are read even without a free slot: time, a tick or the end of a run may change their outcome."""
    graph, dag_id = dag.graph, dag.graph.dag_id
    return (
        reason.everything
        or (graph.has_expiry and (dag.due_at is None or dag.due_at <= now))
        or (graph.requires_both and timed_runs > 0)
        or (graph.timing.deadline is not None and dag_id in reason.ending_runs)
        or (graph.inspects_events and reason.just_arrived is not None and dag_id not in reason.just_arrived)
    )


def needs_more_events(dag: DagView, now: datetime) -> bool:
    """Whether newer events may meet a condition that the oldest do not meet. If some of these are rejected, they are first."""
    if not dag.more_pending or not dag.graph.inspects_events or dag.graph.one_run_per_event or _lacks_datasets(dag):
        return False
    if not isinstance(condition_result(dag, now), InputsMissing | OutsideWindow):
        return False
    return not inspect_events(dag.graph, dag.pending, now).rejected


def _lacks_datasets(dag: DagView) -> bool:
    """Whether datasets that the condition needs have no pending event.

    The oldest event of each dataset is read first: if a dataset has two among the events, these have every dataset.
    """
    uris = {event.uri for event in dag.pending}
    return dag.graph.schedule is not None and len(uris) < len(dag.pending) and not met_by_uris(dag.graph.schedule, uris)


def with_more_events(dag: DagView, plan: ReadPlan) -> ReadPlan:
    """The plan that reads four times as many events. Raises DagFaultError if a daemon cannot keep more than these in memory."""
    if plan.events is None:
        return plan
    limit, max_bytes = plan.events.limit, plan.events.max_bytes
    if limit >= MAX_READ_EVENTS or (max_bytes >= MAX_READ_BYTES and len(dag.pending) < limit):
        reason = f"its {len(dag.pending):,} oldest pending events do not meet its condition; {REMEDY}"
        raise DagFaultError({dag.graph.dag_id: reason})
    limit, max_bytes = min(4 * limit, MAX_READ_EVENTS), min(4 * max_bytes, MAX_READ_BYTES)
    return msgspec.structs.replace(plan, events=msgspec.structs.replace(plan.events, limit=limit, max_bytes=max_bytes))


def _has_one_input(graph: Graph) -> bool:
    """Whether any pending event may meet the condition alone."""
    return graph.schedule is None or isinstance(graph.schedule, DatasetRef | PatternRef)
