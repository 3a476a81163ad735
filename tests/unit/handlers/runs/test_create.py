"""The rows and events of a run that is created and started."""

from collections.abc import Iterable
from datetime import timedelta

import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.run_rows import counted
from tidegate.handlers.runs.create import create, promote, queued_run
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import InsertRun, RunMoved, UpdateRun
from tidegate.schemas.effect.task import Demand, InsertTask, OutletUpdated, TaskMoved
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunState, RunType, TaskState
from tidegate.schemas.timetable.tick import Tick

CHAIN = graph("a!", "b < a", "c < b")
EMPTY = graph("a!", "b! < a")


def journal(effects: Iterable[Effect]) -> list[tuple[int, str]]:
    return [(effect.event.seq, effect.event.state) for effect in effects if isinstance(effect, RunMoved)]


def published(effects: Iterable[Effect]) -> list[tuple[int, str, str]]:
    return [(e.event.seq, e.event.label, e.event.state) for e in effects if isinstance(e, TaskMoved)]


def test_a_queued_run_has_no_tasks_yet() -> None:
    effects = list(create(run_view(tasks=3), {"day": 1}, CHAIN, NOW, started=False))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.state, run.conf, run.unfinished, run.start_date, run.end_date) == (RunState.QUEUED, {"day": 1}, 3, None, None)
    assert (run.state_seq, run.task_seq, journal(effects)) == (1, 0, [(1, "queued")])
    assert len(effects) == 2


def test_a_new_run_begins_with_all_tasks_of_its_version() -> None:
    tick = Tick(NOW, NOW - timedelta(days=1), NOW, NOW)

    run = queued_run(7, CHAIN, "r", RunType.SCHEDULED, NOW, tick=tick)

    assert (run.id, run.dag_id, run.run_id, run.run_type, run.version_id) == (7, "d", "r", RunType.SCHEDULED, 1)
    assert (run.state, run.state_seq, run.task_seq) == (RunState.QUEUED, 1, 0)
    assert (run.unfinished, run.failed_leaves, run.max_active_tasks, run.start_date) == (3, 0, 16, None)
    assert (run.logical_date, run.data_interval_start, run.data_interval_end) == (NOW, NOW - timedelta(days=1), NOW)


def test_a_run_that_starts_at_once_was_queued_before() -> None:
    effects = list(create(run_view(tasks=3), {}, CHAIN, NOW, started=True))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.state, run.unfinished, run.start_date, run.end_date) == (RunState.RUNNING, 2, NOW, None)
    assert (run.state_seq, journal(effects)) == (2, [(1, "queued"), (2, "running")])
    assert (run.task_seq, published(effects)) == (2, [(1, "a", "success"), (2, "b", "scheduled")])


def test_a_promoted_run_has_the_next_sequence_number() -> None:
    effects = list(promote(run_view(tasks=3), CHAIN, NOW))

    (run,) = (effect for effect in effects if isinstance(effect, UpdateRun))
    assert (run.state, run.unfinished, run.start_date, run.end_date) == (RunState.RUNNING, 2, NOW, None)
    assert (run.state_seq, journal(effects)) == (2, [(2, "running")])


def test_a_run_that_was_cleared_starts_again_with_its_tasks() -> None:
    effects = list(promote(run_view(tasks=3, task_seq=5), CHAIN, NOW))

    assert [(it.event.state, it.event.at) for it in effects if isinstance(it, RunMoved)] == [("running", NOW)]
    assert not any(isinstance(effect, InsertTask) for effect in effects)


def test_a_queued_run_of_empty_tasks_ends_as_it_starts() -> None:
    effects = promote(run_view(tasks=2), EMPTY, NOW)

    assert [(it.state, it.end_date) for it in effects if isinstance(it, UpdateRun)] == [(RunState.SUCCESS, NOW)]


def test_every_task_gets_its_row() -> None:
    effects = list(promote(run_view(tasks=3), CHAIN, NOW))

    a, b, c = (effect for effect in effects if isinstance(effect, InsertTask))
    assert [(row.dag_run_id, row.instance.index, row.task_id) for row in (a, b, c)] == [(1, 0, "a"), (1, 1, "b"), (1, 2, "c")]
    assert [row.instance.state for row in (a, b, c)] == [TaskState.SUCCESS, TaskState.SCHEDULED, TaskState.NONE]
    assert [row.dates.end_date for row in (a, b, c)] == [NOW, None, None]
    assert [counted(row.instance) for row in (a, b, c)] == [(0, 0, 0, 0, 0), (1, 1, 0, 0, 0), (1, 0, 0, 0, 0)]
    assert [row.dates.scheduled_at for row in (a, b, c)] == [None, NOW, None]


def test_a_row_has_the_demand_of_its_task() -> None:
    """P03 P04 P05: the queue is ordered by weight, then by the date of the run."""
    dag = graph(
        task("a*2", pool="small", pool_slots=3, weight=7, max_active_per_dag=4, max_active_per_run=2, depends_on_past=True)
    )
    date = NOW - timedelta(days=3)

    (row,) = (e for e in promote(run_view(logical_date=date), dag, NOW) if isinstance(e, InsertTask))

    assert (row.demand, row.order_at) == (Demand("small", 3, -7, per_dag=4, per_run=2), date)
    assert (row.instance.max_tries, row.instance.waits_for_past) == (3, True)


def test_a_run_without_a_logical_date_is_ordered_by_run_after() -> None:
    (row,) = (e for e in promote(run_view(run_after=NOW - timedelta(hours=1)), graph("a"), NOW) if isinstance(e, InsertTask))

    assert row.order_at == NOW - timedelta(hours=1)


@pytest.mark.parametrize(
    ("day", "has_it"),
    [(None, True), (-1, False), (0, True), (1, True), (2, False)],
    ids=["none", "before", "first", "last", "after"],
)
def test_a_task_with_dates_is_no_part_of_runs_outside_them(day: int | None, has_it: bool) -> None:
    dag = graph(task("a", start_date=NOW, end_date=NOW + timedelta(days=1)))
    date = None if day is None else NOW + timedelta(days=day)

    (row,) = (e for e in promote(run_view(logical_date=date, tasks=1), dag, NOW) if isinstance(e, InsertTask))

    assert (row.instance.state is TaskState.SCHEDULED, row.instance.state is TaskState.REMOVED) == (has_it, not has_it)


@pytest.mark.parametrize("dag", [EMPTY, graph()], ids=["empty tasks", "no tasks"])
def test_a_run_of_empty_tasks_ends_at_its_start(dag: Graph) -> None:
    effects = list(create(run_view(tasks=len(dag.nodes)), {}, dag, NOW, started=True))

    (run,) = (effect for effect in effects if isinstance(effect, InsertRun))
    assert (run.state, run.unfinished, run.start_date, run.end_date) == (RunState.SUCCESS, 0, NOW, NOW)
    assert (run.state_seq, journal(effects)) == (3, [(1, "queued"), (2, "running"), (3, "success")])


def test_the_outlets_of_a_successful_task_are_updated_with_a_deterministic_id() -> None:
    dag = graph(task("a!", outlets=("s://x", "s://y")), task("b", outlets=("s://z",)))

    effects = list(promote(run_view(tasks=2), dag, NOW))

    origin = {"tidegate": {"dag_id": "d", "run_id": "r1", "task_id": "a"}}
    assert [effect for effect in effects if isinstance(effect, OutletUpdated)] == [
        OutletUpdated("s://x", "d/r1/a/s://x", origin, NOW),
        OutletUpdated("s://y", "d/r1/a/s://y", origin, NOW),
    ]


def test_the_first_step_of_a_version_is_computed_once() -> None:
    """The cached step must not change with the runs that use it."""
    first = list(promote(run_view(tasks=3), CHAIN, NOW))

    second = list(promote(run_view(tasks=3), CHAIN, NOW))

    assert first == second
