"""Which runs start first: queued, timed, or dataset runs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, dag_view, graph, message, pending, queued, run_update, run_view
from tests.unit.handlers.timed_dags import at, clock, fired, scheduled, tick, timed, view
from tidegate.handlers import run_requested
from tidegate.handlers.scheduling.next_runs import RunEnd, schedule_after_ends, schedule_next_runs
from tidegate.schemas.effect.run import InsertRun, Reconsider, UpdateRun
from tidegate.schemas.effect.task import InsertTask
from tidegate.schemas.message import RunRequested
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.timetable.spec import Continuous
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import DagView, QueuedRun

DUE = (-30, -20, -10)


@pytest.mark.parametrize(
    ("next_queued", "next_tick", "due"), [(5, 10, 5), (15, 10, 10), (5, None, 5)], ids=["a run", "a tick", "only a run"]
)
def test_the_clock_visits_a_dag_when_its_next_queued_run_is_due(next_queued: float, next_tick: float | None, due: float) -> None:
    dag = timed(next_tick) if next_tick else graph("t")

    assert clock(scheduled(view(dag, next_queued_at=at(next_queued)))) == [(None, due)]


def test_queued_runs_start_before_timed_runs() -> None:
    dag = timed(*DUE, limit=2)

    effects = scheduled(view(dag, queued=1, queued_runs=queued(dag, 7)))

    assert [effect.id for effect in effects if isinstance(effect, InsertRun | UpdateRun)] == [7, 201]


def test_unread_queued_runs_wake_the_dag_at_once() -> None:
    """Runs that were read may have ended as soon as they started."""
    dag = graph("t!", limit=1)

    effects = scheduled(view(dag, queued=3, queued_runs=queued(dag, 7)))

    assert clock(effects) == [(None, 0)]


def test_queued_runs_without_capacity_wait_for_the_end_of_a_run() -> None:
    dag = graph("t", limit=1)

    assert clock(scheduled(view(dag, queued=3, queued_runs=queued(dag, 7)))) == []


def test_a_dataset_run_leaves_the_timetable_where_it_is() -> None:
    """R04"""
    dag = timed(10, schedule=A)

    effects = scheduled(view(dag, pending=(pending(1),), last_tick=tick(-10), due_at=at(10)))

    assert [effect.run_type for effect in effects if isinstance(effect, InsertRun)] == ["dataset"]
    assert clock(effects) == []


CONTINUOUS = graph("t", timetable=Continuous(), start_date=at(-60), limit=1)
AT_ONCE = graph("t!", timetable=Continuous(), start_date=at(-60), limit=1)
LONG = Tick(at(-60), at(-60), at(-40), at(-40))


@pytest.mark.parametrize(
    ("dag", "runs", "clocks"),
    [
        pytest.param(view(CONTINUOUS), [-60], [(-60, None)], id="the first one"),
        pytest.param(view(CONTINUOUS, running=1, last_tick=tick(-60)), [], [], id="not before the other has ended"),
        pytest.param(
            view(CONTINUOUS, queued=1, queued_runs=queued(CONTINUOUS, 7), last_tick=tick(-60)), [], [(-60, None)], id="beside one"
        ),
        pytest.param(view(CONTINUOUS, last_tick=LONG), [-40], [(-40, None)], id="the next one"),
        pytest.param(
            view(AT_ONCE, last_tick=tick(-50)), [0], [(0, 0)], id="one at a time"
        ),
    ],
)  # fmt: skip
def test_a_continuous_timetable_starts_one_run_at_a_time(
    dag: DagView, runs: Sequence[float], clocks: Sequence[tuple[float | None, float | None]]
) -> None:
    effects = scheduled(dag)

    assert (fired(effects), clock(effects)) == (runs, clocks)


@pytest.mark.parametrize(
    ("facts", "order_at"),
    [
        pytest.param({"logical_date": at(-90)}, at(-90), id="R10 its logical date"),
        pytest.param({"run_after": at(-5)}, at(-5), id="R10 its time, where it has no date"),
        pytest.param({"logical_date": at(-90), "run_after": at(-5)}, at(-90), id="R10 its logical date before its time"),
    ],
)
def test_runs_of_a_dag_follow_each_other_by_date(facts: dict[str, Any], order_at: datetime) -> None:
    assert run_view(**facts).order_at == order_at


def cleared(*ids: int) -> tuple[QueuedRun, ...]:
    """Runs that have run before, and wait again."""
    dag = graph("t!", limit=1)
    return tuple(QueuedRun(run_view(id_, state_seq=4, task_seq=1), dag) for id_ in ids)


def test_of_runs_that_were_cleared_together_no_more_start_than_the_limit() -> None:
    """R12: not even of runs that end as soon as they are reconsidered."""
    dag = view(graph("t!", limit=1), queued=3, queued_runs=cleared(7, 8, 9))

    effects = scheduled(dag)

    assert [(e.id, e.state, e.state_seq) for e in effects if isinstance(e, UpdateRun)] == [(7, RunState.RUNNING, 5)]
    assert [effect for effect in effects if isinstance(effect, Reconsider)] == [Reconsider(7)]


def test_a_run_that_was_cleared_goes_on_with_the_tasks_it_has() -> None:
    dag = graph("t", limit=1, run_timeout_s=60.0)
    run = run_view(7, state_seq=4, task_seq=9, unfinished=1, failed_leaves=2)
    limit = NOW + timedelta(seconds=60)
    started = msgspec.structs.replace(run, state=RunState.RUNNING, state_seq=5, start_date=NOW, times_out_at=limit)

    effects = scheduled(view(dag, queued=1, queued_runs=(QueuedRun(run, dag),)))

    assert not any(isinstance(effect, InsertTask) for effect in effects)
    assert [e for e in effects if isinstance(e, UpdateRun)] == [run_update(started)]


def test_a_run_by_hand_waits_behind_a_timed_one_and_starts_when_that_ends() -> None:
    """R08"""
    dag = graph("t", limit=1)
    asked = message(RunRequested(dag_id="d", run_id="mine", conf={}))
    found = run_requested.State(NOW, dag_view(dag, running=1), None)
    (run,) = (effect for effect in run_requested.decide([asked], found) if isinstance(effect, InsertRun))

    waiting = QueuedRun(run_view(run.id), dag)
    effects = schedule_after_ends(dag_view(dag, running=1, queued=1, queued_runs=(waiting,)), [RunEnd(RunState.SUCCESS)], NOW)

    assert (run.state, run.start_date) == (RunState.QUEUED, None)
    assert [(e.id, e.state) for e in effects if isinstance(e, UpdateRun)] == [(100, RunState.RUNNING)]


def test_a_run_by_hand_leaves_the_timetable_where_it_is() -> None:
    """R03 R04"""
    dag = view(timed(0))
    asked = message(RunRequested(dag_id="d", run_id=None, conf={}))

    by_hand = list(run_requested.decide([asked], run_requested.State(NOW, dag, None)))
    effects = list(schedule_next_runs(msgspec.structs.replace(dag, running=1), NOW))

    assert [(run.run_type, run.logical_date) for run in by_hand if isinstance(run, InsertRun)] == [(RunType.MANUAL, None)]
    assert clock(by_hand) == []
    assert (fired(effects), clock(effects)) == ([0], [(0, None)])
