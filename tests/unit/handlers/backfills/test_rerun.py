"""A run that exists runs again: with which version, which tasks, in which pool."""

from typing import Any

import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.backfills.test_dates import DAY, backfill
from tidegate.handlers.backfills.rerun import LockedRun, run_again
from tidegate.schemas.backfill import LAST_PRIORITY, BackfillView, Outlets
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import TakeRun
from tidegate.schemas.effect.run import ChangeVersion, RunMoved, UpdateRun
from tidegate.schemas.effect.task import Demand, InsertTask, SetTaskDemand, TaskMoved, UpdateTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.params import ParamSpec
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance

OLD = graph("a", "b < a", "c < b", version_id=1)
NEW = graph("a", "b < a", "c < b", version_id=2, params={"x": ParamSpec(default=1)})
STATES = {"s": TaskState.SUCCESS, "f": TaskState.FAILED, "u": TaskState.UPSTREAM_FAILED, "r": TaskState.REMOVED}
OWN: dict[str, Any] = {"pool": None, "priority": LAST_PRIORITY}


def again(view: BackfillView, of: Graph = NEW, *, only_failed: bool = False, states: str = "sfu", **run: Any) -> list[Effect]:
    """The effects for an ended run of version 1 with tasks in these states: success, failed, upstream_failed, removed."""
    names = {
        state.value[0]: state for state in (TaskState.SUCCESS, TaskState.FAILED, TaskState.UPSTREAM_FAILED, TaskState.REMOVED)
    }
    tasks = {index: Instance(index, names[state], try_number=1) for index, state in enumerate(states)}
    facts = {"state": RunState.FAILED, "task_seq": len(tasks), "unfinished": 0, **run}
    return list(run_again(view, of, LockedRun(run_view(7, **facts), OLD, tasks), NOW, only_failed=only_failed))


def of(effects: list[Effect], type_: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, type_)]


def test_a_run_gets_the_version_the_pool_and_the_conf_of_its_backfill() -> None:
    effects = again(backfill(version_id=2, pool="few", priority=3, dag_params={"y": 2}, outlets=Outlets.NONE))

    assert of(effects, TakeRun) == [TakeRun(7, 1, {"x": 1, "y": 2}, "few", 3, updates_outlets=False)]
    assert [change.version_id for change in of(effects, ChangeVersion)] == [2]
    assert {it.demand.pool for it in of(effects, SetTaskDemand)} == {"few"}
    assert [(run.state, run.unfinished) for run in of(effects, UpdateRun)] == [(RunState.QUEUED, 3)]


@pytest.mark.parametrize(
    ("run", "states", "changed"),
    [
        pytest.param({}, "sfu", [0, 1, 2], id="another priority"),
        pytest.param(OWN, "sfu", [], id="the same pool and priority"),
        pytest.param({}, "sfr", [0, 1], id="removed tasks have none"),
    ],
)
def test_a_run_of_the_version_gets_the_demand_of_the_backfill(run: dict[str, Any], states: str, changed: list[int]) -> None:
    effects = again(backfill(), OLD, states=states, **run)

    assert of(effects, ChangeVersion) == []
    wanted = Demand("default_pool", 1, -LAST_PRIORITY - 1, None, None)
    assert of(effects, SetTaskDemand) == [SetTaskDemand(7, index, wanted) for index in changed]


@pytest.mark.parametrize("states", ["sfu", ""])
def test_the_journal_says_which_backfill_runs_it_again(states: str) -> None:
    effects = again(backfill(), states=states, task_seq=len(states))

    said = {(it.event.at, it.event.reason) for it in of(effects, TaskMoved) + of(effects, RunMoved)}
    assert said == {(NOW, "cleared by backfill 1")}


def test_an_added_task_outside_its_dates_is_removed_now() -> None:
    new = graph("a", "b < a", "c < b", task("late", start_date=NOW + DAY), version_id=2)

    (added,) = of(again(backfill(), new, logical_date=NOW), InsertTask)

    assert (added.task_id, added.instance.state, added.dates.end_date) == ("late", TaskState.REMOVED, NOW)


def test_a_newer_version_of_a_run_is_kept() -> None:
    assert of(again(backfill(version_id=2), NEW, version_id=3), ChangeVersion) == []
    assert of(again(backfill(version_id=2), NEW, version_id=3, task_seq=0), ChangeVersion) == []


@pytest.mark.parametrize(
    ("states", "only_failed", "expected"),
    [
        pytest.param("sfu", True, {1, 2}, id="failed tasks and what follows"),
        pytest.param("sff", True, {1, 2}, id="several failed"),
        pytest.param("sss", True, {0, 1, 2}, id="none failed"),
        pytest.param("sfu", False, {0, 1, 2}, id="whole"),
    ],
)
def test_a_retry_clears_failed_tasks(states: str, expected: set[int], *, only_failed: bool) -> None:
    effects = again(backfill(), OLD, only_failed=only_failed, states=states)

    assert {task.instance.index for task in of(effects, UpdateTask) if task.instance.max_tries > 1} == expected


def test_a_run_that_never_started_has_no_tasks_to_clear() -> None:
    effects = again(backfill(version_id=2), states="", task_seq=0)

    assert of(effects, ChangeVersion) == [ChangeVersion(7, 2, 16, ())]
    assert [(run.state, run.unfinished) for run in of(effects, UpdateRun)] == [(RunState.QUEUED, 3)]


def test_the_run_of_a_consumer_keeps_its_conf() -> None:
    view = backfill(stage=1, stages=("e",), dag_params={"y": 2})

    assert [taken.conf for taken in of(again(view), TakeRun)] == [None]
