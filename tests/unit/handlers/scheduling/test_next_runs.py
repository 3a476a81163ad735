"""What a DAG does next."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import NAMESPACE_OID, uuid5

import pytest

from tests.shapes import NOW, A, B, dag_view, graph, pending, queued
from tidegate.handlers.runs.run_ids import dataset_run_id
from tidegate.handlers.scheduling.inputs import NOT_SCHEDULED
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.conditions.condition import AnyOf
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents
from tidegate.schemas.effect.run import InsertRun, UpdateRun
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView

DAG = graph("t", schedule=A, limit=2)
EMPTY = graph("t!", schedule=A, limit=1)
ONE = (pending(1),)


def started(effects: Sequence[Effect]) -> list[int]:
    """The ids of the queued runs that were started."""
    return [effect.id for effect in effects if isinstance(effect, UpdateRun)]


def created(effects: Sequence[Effect]) -> list[InsertRun]:
    return [effect for effect in effects if isinstance(effect, InsertRun)]


def test_all_pending_events_make_one_run() -> None:
    events = (pending(1), pending(2), pending(3))

    effects = list(schedule_next_runs(dag_view(DAG, pending=events), NOW))

    assert [(run.id, run.state, run.events) for run in created(effects)] == [(100, RunState.RUNNING, 3)]
    assert [e.events for e in effects if isinstance(e, ConsumeEvents)] == [events]


def test_a_dataset_run_is_as_late_as_its_newest_event() -> None:
    events = (pending(1, minutes=-7), pending(2, minutes=-5), pending(3, minutes=-6))

    (run,) = created(list(schedule_next_runs(dag_view(DAG, pending=events), NOW)))

    assert run.run_after == NOW - timedelta(minutes=5)


def test_a_dataset_run_is_not_later_than_now_when_the_clock_of_a_producer_is_ahead() -> None:
    (run,) = created(list(schedule_next_runs(dag_view(DAG, pending=(pending(1), pending(2, minutes=7))), NOW)))

    assert run.run_after == NOW


@pytest.mark.parametrize(
    ("dag", "ids"),
    [
        pytest.param(dag_view(DAG, queued=1, queued_runs=queued(DAG, 7)), [7], id="capacity for it"),
        pytest.param(dag_view(DAG, queued=3, queued_runs=queued(DAG, 7, 8, 9)), [7, 8], id="no more than the limit, in order"),
        pytest.param(dag_view(DAG, running=1, queued=2, queued_runs=queued(DAG, 7, 8)), [7], id="running runs take slots"),
        pytest.param(dag_view(DAG, running=2, queued=1, queued_runs=queued(DAG, 7)), [], id="no capacity"),
        pytest.param(dag_view(DAG, running=5, queued=1, queued_runs=queued(DAG, 7)), [], id="over the limit already"),
        pytest.param(dag_view(DAG, queued=1, queued_runs=queued(DAG, 7), is_paused=True), [], id="paused"),
        pytest.param(dag_view(DAG, queued=1, queued_runs=queued(DAG, 7), is_stale=True), [], id="in no file"),
        pytest.param(
            dag_view(EMPTY, queued=3, queued_runs=queued(EMPTY, 7, 8, 9)), [7, 8, 9], id="runs that end at once take no slot"
        ),
    ],
)
def test_queued_runs_start_while_there_is_capacity(dag: DagView, ids: Sequence[int]) -> None:
    assert started(list(schedule_next_runs(dag, NOW))) == ids


def test_queued_runs_start_before_dataset_runs() -> None:
    dag = dag_view(DAG, running=1, queued=1, queued_runs=queued(DAG, 7), pending=ONE)

    effects = list(schedule_next_runs(dag, NOW))

    assert (started(effects), created(effects)) == ([7], [])


def test_dataset_runs_use_the_capacity_that_queued_runs_leave() -> None:
    dag = dag_view(DAG, queued=1, queued_runs=queued(DAG, 7), pending=ONE)

    effects = list(schedule_next_runs(dag, NOW))

    assert (started(effects), [run.state for run in created(effects)]) == ([7], [RunState.RUNNING])


@pytest.mark.parametrize("held", [{}, {"is_paused": True}, {"is_stale": True}, {"running": 2}], ids=str)
def test_events_of_datasets_outside_the_schedule_are_discarded_with_a_reason(held: dict[str, bool]) -> None:
    events = (pending(1, A), pending(2, B), pending(3, B))

    effects = list(schedule_next_runs(dag_view(DAG, pending=events, **held), NOW))

    assert [e for e in effects if isinstance(e, DiscardEvents)] == [DiscardEvents("d", events[1:], NOT_SCHEDULED)]


def test_a_dag_without_a_schedule_keeps_no_events() -> None:
    effects = list(schedule_next_runs(dag_view(graph("t"), pending=ONE), NOW))

    assert effects == [DiscardEvents("d", ONE, NOT_SCHEDULED)]


def test_a_run_consumes_the_events_of_all_datasets_even_if_one_was_enough() -> None:
    events = (pending(1, A), pending(2, B))

    effects = list(schedule_next_runs(dag_view(graph("t", schedule=AnyOf((A, B))), pending=events), NOW))

    assert [e.events for e in effects if isinstance(e, ConsumeEvents)] == [events]


@pytest.mark.parametrize(
    "dag",
    [
        dag_view(DAG),
        dag_view(DAG, pending=ONE, is_paused=True),
        dag_view(DAG, pending=ONE, is_stale=True),
        dag_view(DAG, pending=ONE, running=2),
    ],
)
def test_a_blocked_dag_starts_no_run(dag: DagView) -> None:
    assert list(schedule_next_runs(dag, NOW)) == []


def test_dataset_runs_of_the_same_time_have_distinct_ids() -> None:
    """The hashes of these two begin with the same 32 bits."""
    first, second = pending(43_616), pending(134_131)

    assert dataset_run_id(1, NOW, (first,)) != dataset_run_id(1, NOW, (second,))


def test_the_id_of_a_dataset_run_ends_with_digits_of_a_uuid() -> None:
    """Its form of former versions: a run that is created again after an upgrade has the same id."""
    name = ",".join(str(event.dataset_event_id) for event in ONE)

    assert dataset_run_id(1, NOW, ONE).rpartition("_")[2] == uuid5(NAMESPACE_OID, name).hex[:16]


def test_dataset_runs_without_events_have_distinct_ids() -> None:
    assert dataset_run_id(1, NOW, ()) != dataset_run_id(2, NOW, ())
