"""Properties of scheduling: any DAG with any pending events and queued runs."""

from datetime import datetime, timedelta
from itertools import islice
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import NOW, A, B, C, dag_view, graph, pending, queued, task
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.round_robin import Source
from tidegate.handlers.scheduling.timetable import upcoming_tick
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Dates
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView, PendingEvent

SCHEDULES: tuple[Condition | None, ...] = (
    *(None, A, AllOf((A, B)), AnyOf((A, B))),
    *(AllOf((AnyOf((A, B)), C)), AnyOf((AllOf((A, B)), C))),
)
CHANCES = st.randoms(use_true_random=True)


class Scheduled(msgspec.Struct, frozen=True):
    """A DAG before and after it was scheduled, and the effects."""

    before: DagView
    effects: tuple[Effect, ...]
    after: DagView


def scheduled(chance: Random) -> Scheduled:
    before = dag_of(chance)
    effects = tuple(schedule_next_runs(before, NOW))
    return Scheduled(before, effects, after(before, effects))


def dag_of(chance: Random) -> DagView:
    """Any DAG at rest or not, with at least as many of its queued runs as may start."""
    limit = chance.randint(1, 3)
    minutes = chance.sample(range(-5, 3), chance.randint(0, 5))
    current = graph(
        chance.choice(("t", "t!", task("t", start_date=NOW - timedelta(minutes=2)))),
        schedule=chance.choice(SCHEDULES),
        limit=limit,
        timetable=Dates(tuple(at(minute) for minute in minutes)) if minutes else None,
        start_date=at(-9),
        missed=chance.choice(("skip", "latest", "all")),
    )
    earlier = graph(chance.choice(("t", "t!")), version_id=0)
    waiting = tuple(queued(chance.choice((current, earlier)), id_)[0] for id_ in range(chance.randint(0, 4)))
    events = tuple(pending(id_, chance.choice((A, B, C))) for id_ in range(chance.randint(0, 4)))
    return dag_view(
        current,
        is_paused=chance.random() < 0.1,
        is_stale=chance.random() < 0.1,
        running=chance.randint(0, limit + 1),
        queued=len(waiting),
        queued_runs=waiting,
        pending=events,
        last_tick=chance.choice((None, Tick(*4 * (at(-4),)))),
        due_at=chance.choice((None, NOW, at(1))),
        run_dates=frozenset(at(minute) for minute in (-3, -2, 1) if chance.random() < 0.2),
        timed_run_ids=tuple(range(200, 210)),
        next_queued_at=chance.choice((None, at(1.5))),
        last_source=chance.choice((None, *Source)),
    )


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def after(dag: DagView, effects: tuple[Effect, ...]) -> DagView:
    started = [effect for effect in effects if isinstance(effect, InsertRun | UpdateRun)]
    gone = {event for effect in effects if isinstance(effect, ConsumeEvents | DiscardEvents) for event in effect.events}
    ids = {run.id for run in started}
    waiting = tuple(each for each in dag.queued_runs if each.run.id not in ids)
    for clock in (effect for effect in effects if isinstance(effect, UpdateSchedule)):
        dag = msgspec.structs.replace(
            dag, last_tick=tick_of(clock), due_at=clock.due_at, last_source=clock.last_source, catchup_until=clock.catchup_until
        )
    return msgspec.structs.replace(
        dag,
        running=dag.running + sum(run.state is RunState.RUNNING for run in started),
        queued=len(waiting),
        queued_runs=waiting,
        pending=tuple(event for event in dag.pending if event not in gone),
    )


def tick_of(clock: UpdateSchedule) -> Tick | None:
    if not (clock.last_logical_date and clock.last_interval_start and clock.last_interval_end):
        return None
    return Tick(clock.last_logical_date, clock.last_interval_start, clock.last_interval_end, clock.last_interval_end)


def fired(step: Scheduled) -> list[datetime]:
    """The dates of the timed runs that were made."""
    return [effect.logical_date for effect in step.effects if isinstance(effect, InsertRun) and effect.logical_date]


def taken(step: Scheduled, kind: type[ConsumeEvents] | type[DiscardEvents]) -> list[PendingEvent]:
    return [event for effect in step.effects if isinstance(effect, kind) for event in effect.events]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_no_more_runs_than_the_limit_are_ever_running(chance: Random) -> None:
    step = scheduled(chance)

    assert step.after.running <= max(step.before.graph.max_active_runs, step.before.running)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_every_event_is_either_consumed_or_discarded_or_pending(chance: Random) -> None:
    step = scheduled(chance)

    accounted = [*taken(step, ConsumeEvents), *taken(step, DiscardEvents), *step.after.pending]
    assert sorted(event.dataset_event_id for event in accounted) == [event.dataset_event_id for event in step.before.pending]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_queued_runs_start_in_their_order(chance: Random) -> None:
    step = scheduled(chance)

    started = [effect.id for effect in step.effects if isinstance(effect, UpdateRun)]
    assert started == [each.run.id for each in islice(step.before.queued_runs, len(started))]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_no_run_consumes_what_does_not_meet_the_condition(chance: Random) -> None:
    step = scheduled(chance)

    if consumed := taken(step, ConsumeEvents):
        alone = msgspec.structs.replace(step.before, pending=tuple(consumed), running=0, queued=0)
        assert isinstance(next_dataset_run(alone, NOW), Satisfied)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_nothing_that_could_start_is_left_waiting(chance: Random) -> None:
    step = scheduled(chance)

    assert list(schedule_next_runs(step.after, NOW)) == []


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_every_date_gets_one_run_in_order_and_none_before_its_time(chance: Random) -> None:
    step = scheduled(chance)

    dates = fired(step)
    assert dates == sorted(set(dates))
    assert not step.before.run_dates & set(dates)
    assert all(date <= NOW for date in dates)
    assert not step.before.last_tick or all(date > step.before.last_tick.logical_date for date in dates)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_the_clock_visits_a_dag_whenever_time_alone_starts_a_run(chance: Random) -> None:
    dag = scheduled(chance).after

    tick = upcoming_tick(dag, NOW)
    moments = {dag.next_queued_at, tick.run_after if tick else None} - {None}
    coming = {moment for moment in moments if moment and moment > NOW}
    assert dag.due_at == (None if dag.is_inactive else min(coming, default=None))


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_a_due_tick_waits_only_for_capacity(chance: Random) -> None:
    dag = scheduled(chance).after

    tick = upcoming_tick(dag, NOW)
    if tick and tick.run_after <= NOW and not dag.is_inactive:
        assert dag.running >= dag.graph.max_active_runs
