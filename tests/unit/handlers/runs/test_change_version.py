"""A cleared run may change to the newest version of its DAG."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph, message, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.clear_requested import State, decide
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.run import ChangeVersion, UpdateRun
from tidegate.schemas.effect.task import Demand, InsertTask, SetTaskDemand, UpdateTask
from tidegate.schemas.graph import Graph, element_index
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.state import RunState, TaskState

NONE, S, F = TaskState.NONE, TaskState.SUCCESS, TaskState.FAILED
EACH, FIRST = task("each < list", over="list"), element_index(1, 0)
NEWER = graph("b", "c < b", "d*2 < c", version_id=2, max_active_tasks=3)


def failed() -> SimulatedRun:
    """A run of `a`, which is no more, and `b`."""
    world = SimulatedRun(graph("a", "b < a"))
    for task_id, ok in (("a", True), ("b", False)):
        world.admit(task_id)
        world.finish(**{task_id: ok})
    return world


def cleared(world: SimulatedRun, current: Graph = NEWER, **asked: Any) -> list[Effect]:
    """The effects while this is the newest version of the DAG."""
    tasks = {index: msgspec.structs.replace(task) for index, task in world.tasks.items()}
    state = State(NOW, dag_view(current), {1: world.run}, {1: world.graph}, {1: tasks})
    wish = ClearRequested(dag_id="d", run_id="r1", **{"newest_version": True, **asked})
    return well_formed(decide([message(wish)], state))


def tasks(effects: Sequence[Effect]) -> dict[int, tuple[TaskState, int]]:
    """By index, the state and `awaited` of the written tasks."""
    return {i.index: (i.state, i.awaited) for e in effects if isinstance(e, InsertTask | UpdateTask) if (i := e.instance)}


def test_tasks_keep_their_history_by_name_and_new_ones_are_added() -> None:
    effects = cleared(failed())

    assert effects[0] == ChangeVersion(1, 2, 3, ((0, -1), (1, 0)))
    assert [effect.task_id for effect in effects if isinstance(effect, InsertTask)] == ["c", "d"]
    wanted = Demand("default_pool", 1, -1, None, None)
    assert [effect for effect in effects if isinstance(effect, SetTaskDemand)] == [SetTaskDemand(1, 0, wanted)]
    assert tasks(effects) == {0: (NONE, 0), 1: (NONE, 1), 2: (NONE, 1)}
    assert [(e.state, e.unfinished) for e in effects if isinstance(e, UpdateRun)] == [(RunState.QUEUED, 3)]


def test_a_task_that_is_not_cleared_keeps_its_state() -> None:
    effects = cleared(failed(), graph("a", "b < a", "c < a", version_id=2), task_ids=("c",))

    assert tasks(effects) == {2: (NONE, 1)}
    assert [(e.unfinished, e.failed_leaves) for e in effects if isinstance(e, UpdateRun)] == [(1, 1)]


def test_a_run_keeps_its_version_unless_the_newest_is_requested() -> None:
    effects = cleared(failed(), newest_version=False)

    assert not any(isinstance(effect, ChangeVersion) for effect in effects)


@pytest.mark.parametrize("newest", [True, False])
def test_a_task_of_the_newest_version_is_known_only_where_that_is_requested(*, newest: bool) -> None:
    effects = cleared(failed(), task_ids=("d",), newest_version=newest)

    unknown = [RejectMessage("no_such_task", "DAG 'd' has no task 'd' in these runs")]
    assert [effect for effect in effects if isinstance(effect, RejectMessage)] == ([] if newest else unknown)


def test_a_new_task_that_is_no_part_of_the_run_is_removed_at_once() -> None:
    world = failed()
    world.run = msgspec.structs.replace(world.run, logical_date=NOW)

    effects = cleared(world, graph("b", task("old", end_date=NOW.replace(year=2020)), version_id=2))

    added = [effect for effect in effects if isinstance(effect, InsertTask)]
    assert [(it.task_id, it.instance.state, it.dates.end_date) for it in added] == [("old", TaskState.REMOVED, NOW)]


def test_a_run_that_has_the_newest_version_keeps_it() -> None:
    effects = cleared(failed(), graph("a", "b < a", version_id=1))

    assert not any(isinstance(effect, ChangeVersion) for effect in effects)


def test_a_running_run_of_an_older_version_is_not_cleared_by_half() -> None:
    world = SimulatedRun(graph("a", "b"))
    world.admit("a")
    world.finish(a=False)

    said = "run 'r1' is running with an older version: cancel it first, or do not ask for the newest version"
    assert cleared(world) == [RejectMessage("still_running", said)]
    for effects in (cleared(world, newest_version=False), cleared(world, world.graph)):
        assert not any(isinstance(effect, ChangeVersion | RejectMessage) for effect in effects)


@pytest.mark.parametrize(
    ("newer", "indices"),
    [
        pytest.param(graph("new", "list", EACH, version_id=2), ((0, 1), (1, 2), (FIRST, FIRST + 16384)), id="moved with it"),
        pytest.param(graph("list", "each < list", version_id=2), ((0, 0), (1, 1), (FIRST, -1)), id="mapped no more"),
        pytest.param(graph("new", version_id=2), ((0, -1), (1, -2), (FIRST, -3)), id="removed with it"),
    ],
)
def test_instances_of_a_mapped_task_follow_it(newer: Graph, indices: tuple[tuple[int, int], ...]) -> None:
    world = SimulatedRun(graph("list", EACH))
    world.returns["list"] = [1]
    world.admit("list")
    world.finish(list=True)
    world.reconsider(stop="enough")

    effects = cleared(world, newer)

    assert [effect.indices for effect in effects if isinstance(effect, ChangeVersion)] == [indices]
