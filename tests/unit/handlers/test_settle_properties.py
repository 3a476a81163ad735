"""Whatever waits for a DAG, and whatever its schedule: what settling may and may not do."""

from itertools import islice
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import NOW, A, B, C, dag_view, graph, pending, queued
from tidegate.handlers.gate import Open, gate
from tidegate.handlers.settle import settle
from tidegate.schemas.dag import AllOf, AnyOf, Condition
from tidegate.schemas.effect import ConsumeEvents, DiscardEvents, Effect, InsertRun, UpdateRun
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, PendingEvent

SCHEDULES: tuple[Condition | None, ...] = (
    *(None, A, AllOf((A, B)), AnyOf((A, B))),
    *(AllOf((AnyOf((A, B)), C)), AnyOf((AllOf((A, B)), C))),
)
CHANCES = st.randoms(use_true_random=True)


class Settled(msgspec.Struct, frozen=True):
    """A DAG, what settling did, and the DAG after it."""

    before: DagView
    effects: tuple[Effect, ...]
    after: DagView


def settled(chance: Random) -> Settled:
    before = dag_of(chance)
    effects = tuple(settle(before, NOW))
    return Settled(before, effects, after(before, effects))


def dag_of(chance: Random) -> DagView:
    """Any DAG at rest or not, with at least as many of its queued runs as may start."""
    limit = chance.randint(1, 3)
    current = graph(chance.choice(("t", "t!")), schedule=chance.choice(SCHEDULES), limit=limit)
    earlier = graph(chance.choice(("t", "t!")), version_id=0)
    waiting = tuple(queued(chance.choice((current, earlier)), id_)[0] for id_ in range(chance.randint(0, 4)))
    events = tuple(pending(id_, chance.choice((A, B, C))) for id_ in range(chance.randint(0, 4)))
    return dag_view(
        current,
        is_paused=chance.random() < 0.1,
        is_stale=chance.random() < 0.1,
        running=chance.randint(0, limit + 1),
        queued=len(waiting),
        waiting=waiting,
        pending=events,
    )


def after(dag: DagView, effects: tuple[Effect, ...]) -> DagView:
    started = [effect for effect in effects if isinstance(effect, InsertRun | UpdateRun)]
    gone = {event for effect in effects if isinstance(effect, ConsumeEvents | DiscardEvents) for event in effect.events}
    ids = {run.id for run in started}
    waiting = tuple(each for each in dag.waiting if each.run.id not in ids)
    return msgspec.structs.replace(
        dag,
        running=dag.running + sum(run.state is RunState.RUNNING for run in started),
        queued=len(waiting),
        waiting=waiting,
        pending=tuple(event for event in dag.pending if event not in gone),
    )


def taken(step: Settled, kind: type[ConsumeEvents] | type[DiscardEvents]) -> list[PendingEvent]:
    return [event for effect in step.effects if isinstance(effect, kind) for event in effect.events]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_no_more_runs_than_the_limit_are_ever_running(chance: Random) -> None:
    step = settled(chance)

    assert step.after.running <= max(step.before.graph.max_active_runs, step.before.running)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_every_pending_event_is_consumed_or_discarded_or_kept_and_no_two_of_these(chance: Random) -> None:
    step = settled(chance)

    accounted = [*taken(step, ConsumeEvents), *taken(step, DiscardEvents), *step.after.pending]
    assert sorted(event.dataset_event_id for event in accounted) == [event.dataset_event_id for event in step.before.pending]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_queued_runs_start_in_their_order(chance: Random) -> None:
    step = settled(chance)

    started = [effect.id for effect in step.effects if isinstance(effect, UpdateRun)]
    assert started == [each.run.id for each in islice(step.before.waiting, len(started))]


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_no_run_consumes_what_does_not_meet_the_condition(chance: Random) -> None:
    step = settled(chance)

    if consumed := taken(step, ConsumeEvents):
        alone = msgspec.structs.replace(step.before, pending=tuple(consumed), running=0, queued=0)
        assert isinstance(gate(alone), Open)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_nothing_that_could_start_is_left_waiting(chance: Random) -> None:
    step = settled(chance)

    assert list(settle(step.after, NOW)) == []
