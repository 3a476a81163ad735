"""Which runs of a backfill that have not ended get its new version, and what becomes of their tasks."""

from datetime import datetime
from typing import Any

import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.backfills.test_dates import DAY, backfill
from tidegate.handlers.backfills.move_version import move_to_version
from tidegate.handlers.backfills.rerun import LockedRun
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import TakeRun
from tidegate.schemas.effect.run import ChangeVersion, Reconsider
from tidegate.schemas.effect.task import InsertTask, TaskMoved, UpdateTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.params import ParamSpec
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance

OLD = graph("a", "b < a", version_id=1)
NEW = graph("first", "a < first", "b < a", version_id=2, params={"x": ParamSpec(default=1)})
VIEW = backfill(version_id=2, dag_params={"y": 2})


def moved(run_state: str, *states: str, new: Graph = NEW, **run: Any) -> list[Effect]:
    """The effects for a run of version 1, with tasks in these states."""
    tasks = {index: Instance(index, TaskState(state)) for index, state in enumerate(states)}
    facts = {"state": RunState(run_state), "unfinished": 2, "backfill_id": 1, **run}
    return list(move_to_version(VIEW, LockedRun(run_view(7, **facts), OLD, tasks), new, NOW))


def of(effects: list[Effect], type_: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, type_)]


@pytest.mark.parametrize(
    ("run_state", "states", "run", "moves"),
    [
        pytest.param("queued", (), {}, True, id="it has no tasks"),
        pytest.param("queued", ("success", "none"), {}, True, id="it was cleared and is queued"),
        pytest.param("running", ("none", "none"), {}, True, id="it waits for the previous run"),
        pytest.param("running", ("scheduled", "none"), {}, True, id="its first task waits for a slot"),
        pytest.param("running", ("removed", "none"), {}, True, id="a task is removed"),
        pytest.param("running", ("queued", "none"), {}, False, id="a task is about to run"),
        pytest.param("running", ("running", "none"), {}, False, id="a task runs"),
        pytest.param("running", ("success", "none"), {}, False, id="a task has run"),
        pytest.param("running", ("up_for_retry", "none"), {}, False, id="a task has failed"),
        pytest.param("running", ("none", "none"), {"version_id": 2}, False, id="it has the version"),
        pytest.param("running", ("none", "none"), {"version_id": 3}, False, id="it has a newer version"),
    ],
)
def test_a_run_moves_before_its_first_task(run_state: str, states: tuple[str, ...], run: dict[str, Any], *, moves: bool) -> None:
    changes = of(moved(run_state, *states, **run), ChangeVersion)

    assert [change.version_id for change in changes] == ([2] if moves else [])


def test_its_waiting_tasks_are_decided_anew() -> None:
    effects = moved("running", "scheduled", "none")

    assert [it.instance.index for it in of(effects, InsertTask)] == [0]
    written = {it.instance.index: (it.instance.state, it.instance.awaited) for it in of(effects, UpdateTask)}
    assert written == {0: (TaskState.NONE, 0), 1: (TaskState.NONE, 1), 2: (TaskState.NONE, 1)}
    assert of(effects, Reconsider) == [Reconsider(7)]
    moved_at = [(it.event.task_id, it.event.state, it.event.at, it.event.reason) for it in of(effects, TaskMoved)]
    assert moved_at == [("a", TaskState.NONE, NOW, "cleared by backfill 1")]


def test_it_gets_the_limit_of_the_version() -> None:
    new = graph("a", "b < a", version_id=2, max_active_tasks=5)

    assert of(moved("queued", new=new), ChangeVersion) == [ChangeVersion(7, 2, 5, ())]
    assert of(moved("queued", "none", "none", new=new), ChangeVersion) == [ChangeVersion(7, 2, 5, ((0, 0), (1, 1)))]


def test_ended_tasks_of_a_queued_run_stay() -> None:
    effects = moved("queued", "success", "none")

    assert {it.instance.index for it in of(effects, UpdateTask)} == {0, 2}
    assert of(effects, Reconsider) == []


@pytest.mark.parametrize("states", [(), ("none", "none")])
def test_it_gets_the_parameters_of_the_version_and_keeps_its_pool(states: tuple[str, ...]) -> None:
    effects = moved("queued", *states, pool="few", priority=3)

    assert of(effects, TakeRun) == [TakeRun(7, 1, {"x": 1, "y": 2}, "few", 3, updates_outlets=True)]


def test_a_run_that_stays_keeps_its_parameters() -> None:
    assert moved("running", "running", "none") == []


@pytest.mark.parametrize(
    ("run_state", "timeout_s", "expected"),
    [
        pytest.param("running", 3 * 86400.0, NOW + 2 * DAY, id="from its start on"),
        pytest.param("running", None, None, id="no limit"),
        pytest.param("queued", 3 * 86400.0, None, id="it has not started"),
    ],
)
def test_a_running_run_has_the_timeout_of_the_version(run_state: str, timeout_s: float | None, expected: datetime | None) -> None:
    new = graph("a", "b < a", version_id=2, run_timeout_s=timeout_s)

    (change,) = of(moved(run_state, "none", "none", new=new, start_date=NOW - DAY, times_out_at=NOW), ChangeVersion)

    assert change.times_out_at == expected


@pytest.mark.parametrize(("days", "state"), [(0, TaskState.REMOVED), (1, TaskState.NONE)])
def test_an_added_task_is_no_part_of_a_run_outside_its_dates(days: int, state: TaskState) -> None:
    new = graph(task("first", start_date=NOW), "a < first", "b < a", version_id=2)

    effects = moved("running", "scheduled", "none", new=new, logical_date=NOW - DAY + days * DAY)

    added = [(it.instance.index, it.instance.state, it.dates.end_date) for it in of(effects, InsertTask)]
    assert added == [(0, state, NOW if state is TaskState.REMOVED else None)]
    assert {it.instance.index: it.instance.awaited for it in of(effects, UpdateTask)}[1] == days
