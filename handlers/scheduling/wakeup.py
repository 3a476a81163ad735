"""The next wake-up of a DAG: the first time at which a decision may differ without a message."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.handlers.scheduling.blockers import condition_result
from tidegate.handlers.scheduling.condition import ConditionResult, Satisfied, rate_limited
from tidegate.handlers.scheduling.input_deadline import input_deadline
from tidegate.handlers.scheduling.inputs import expires_at, inputs_of, inspect_events, leaf_expiries
from tidegate.handlers.scheduling.read_plan import most_runs
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.handlers.scheduling.timetable import catchup_resumes_at, is_due, upcoming_tick
from tidegate.schemas.explain.reasons import ConditionBroken, Debouncing, RateLimited
from tidegate.schemas.view import DagView, Input


def next_wakeup(before: DagView, dag: DagView, now: datetime) -> datetime | None:
    """`before` is the DAG as read, `dag` the DAG after the decision. None: only a message causes the next decision.

    A wake-up that changes nothing is harmless; a missing one is not.
    """
    times = list(_event_wakeups(before, dag, now)) if dag.pending or dag.graph.inspects_events else []
    if left_events(before, dag):
        times.append(now)
    if not dag.is_inactive:
        times += _run_wakeups(dag, now)
    return min(times, default=None)


def left_events(before: DagView, dag: DagView) -> bool:
    """Whether the decision took some of the oldest events, and newer ones are to be read in their place."""
    has_taken = len(dag.pending) < len(before.pending)
    return has_taken and (dag.more_pending > 0 or _may_have_more(before, dag))


def _may_have_more(before: DagView, dag: DagView) -> bool:
    """Of a DAG with one run per event, one more event is read than runs can start, and the others are not counted."""
    slots = min(before.graph.max_active_runs - before.running, most_runs(before.graph))
    return dag.graph.one_run_per_event and len(before.pending) > slots and not dag.pending and has_capacity(dag)


def _run_wakeups(dag: DagView, now: datetime) -> Iterator[datetime]:
    """For queued and timed runs. Without capacity, the message of a run's end suffices."""
    if dag.next_queued_at is not None:
        yield dag.next_queued_at
    if dag.queued and has_capacity(dag):
        yield now  # Fewer queued runs were read than can start.
    if (tick_at := _tick_wakeup(dag, now)) is not None:
        yield tick_at


def _tick_wakeup(dag: DagView, now: datetime) -> datetime | None:
    tick = upcoming_tick(dag, now)
    if tick is None or tick.run_after > now:
        return tick and tick.run_after
    if not is_due(dag, tick, now):
        return catchup_resumes_at(dag, now)
    return tick.run_after if has_capacity(dag) else None


def _event_wakeups(before: DagView, dag: DagView, now: datetime) -> Iterator[datetime]:
    """For pending events. They expire also while no run may start."""
    result = condition_result(dag, now)
    if isinstance(result, ConditionBroken):
        return
    # Where datasets alone count, no event expires or has a deadline.
    inputs = _arrived_inputs(dag, now) if dag.graph.inspects_events else ()
    yield from _expiries(dag, inputs)
    if dag.unread and before.due_at is not None and now < before.due_at:
        yield before.due_at
    if dag.is_inactive:
        return
    deadline = input_deadline(dag, inputs, now)
    if deadline is not None and now < deadline:
        yield deadline
    if has_capacity(dag) and not dag.graph.requires_both:
        yield from _condition_wakeups(dag, result, now, overdue=deadline is not None and deadline <= now)


def _arrived_inputs(dag: DagView, now: datetime) -> Sequence[Input]:
    return inspect_events(dag.graph, dag.arrived, now).inputs if dag.unread else inputs_of(dag, now)


def _expiries(dag: DagView, inputs: Sequence[Input]) -> Iterator[datetime]:
    """The expiries of inputs. With a deadline, those of single leaves, too: the condition may then miss the deadline."""
    if dag.graph.timing.deadline is not None:
        return (expiry for input_ in inputs for expiry in leaf_expiries(input_))
    return (expiry for input_ in inputs if (expiry := expires_at(input_)) is not None)


def _condition_wakeups(dag: DagView, result: ConditionResult, now: datetime, *, overdue: bool) -> Iterator[datetime]:
    """For a DAG with capacity."""
    match result:
        case Debouncing(until) | RateLimited(until):
            yield until
        case Satisfied():
            yield now  # More runs can start than ids were reserved.
        case _:
            limited = rate_limited(dag.graph, now, dag.dataset_run_at)
            if overdue:
                yield limited.until if limited else now
