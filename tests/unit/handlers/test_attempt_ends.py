"""What the ends of attempts may affect is bounded before it is read; the next tries of a backfill take its present limits."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.shapes import graph, run_view
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.attempt_ends import affected_by, has_moved, runs_that_may_end, runs_that_may_fail
from tidegate.schemas.effect.task import Demand, SetTaskDemand
from tidegate.schemas.queries.submissions import AttemptRef
from tidegate.schemas.state import RunState
from tidegate.schemas.view import Instance, RunView
from tidegate.schemas.wire.event import TaskFinished

LINE = graph("a", "b < a", "c < b", "x")
RETRIED = graph("a*1", "b < a", version_id=2)

Place = tuple[int, int, int]
"""Run, task and try of an attempt; run 2 has the version whose first task is retried once."""


def affected(*ends: tuple[Place, str]) -> set[tuple[int, int]]:
    finishes, places = [], {}
    for number, ((run, index, tried), outcome) in enumerate(ends):
        id_ = UUID(int=number)
        finishes.append(TaskFinished(submission_id=id_, outcome=outcome))  # type: ignore[arg-type]  # one of its literals
        places[id_] = AttemptRef(run, index, tried, "d", run)
    return affected_by(finishes, places, {1: LINE, 2: RETRIED})


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        pytest.param([((1, 0, 1), "succeeded")], {(1, 0), (1, 1)}, id="what comes next"),
        pytest.param([((1, 0, 1), "failed")], {(1, 0), (1, 1), (1, 2)}, id="what a failure rules out, and what comes next"),
        pytest.param([((1, 3, 1), "failed")], {(1, 3)}, id="nothing comes next"),
        pytest.param([((2, 0, 1), "failed")], {(2, 0)}, id="it is tried again"),
        pytest.param([((2, 0, 2), "failed")], {(2, 0), (2, 1)}, id="the last try"),
        pytest.param([((1, 3, 1), "failed"), ((2, 0, 1), "failed")], {(1, 3), (2, 0)}, id="two runs"),
        pytest.param([((1, -1, 1), "failed")], set(), id="a removed task"),
    ],
)
def test_the_tasks_that_ends_may_affect(ends: Sequence[tuple[Place, str]], found: set[tuple[int, int]]) -> None:
    assert affected(*ends) == found


def test_the_end_of_an_unknown_attempt_affects_nothing() -> None:
    assert affected_by([TaskFinished(submission_id=UUID(int=1), outcome="failed")], {}, {}) == set()


@pytest.mark.parametrize(
    ("run", "moved"),
    [
        pytest.param(run_view(version_id=3), False, id="as it was"),
        pytest.param(run_view(version_id=4), True, id="it has another version"),
        pytest.param(None, True, id="it was deleted, or its DAG is held"),
    ],
)
def test_an_attempt_is_searched_again_if_its_run_changed_before_it_was_locked(run: RunView | None, moved: bool) -> None:
    assert has_moved(AttemptRef(1, 0, 1, "d", 3), run) is moved


@pytest.mark.parametrize(
    ("facts", "tasks", "may_end"),
    [
        ({"unfinished": 1}, 1, True),
        ({"unfinished": 2}, 2, True),
        ({"unfinished": 2}, 1, False),
        ({"unfinished": 0}, 1, False),
        ({"unfinished": 1, "backfill_id": 7}, 1, False),
    ],
    ids=["the last task", "all that are left", "not all that are left", "it has ended", "a run of a backfill takes no slot"],
)
def test_a_run_may_end_once_all_unfinished_tasks_are_affected(facts: Mapping[str, Any], tasks: int, may_end: bool) -> None:
    run = run_view(state=RunState.RUNNING, **facts)

    assert runs_that_may_end([run], [(1, index) for index in range(tasks)]) == ({"d": 1} if may_end else {})


def test_the_runs_of_a_dag_that_may_end_are_counted() -> None:
    runs = [run_view(1), run_view(2), run_view(3, dag_id="e"), run_view(4, dag_id="e")]

    assert runs_that_may_end(runs, [(1, 0), (2, 0), (3, 0)]) == {"d": 2, "e": 1}


@pytest.mark.parametrize(
    ("unfinished", "leaves", "task", "may_fail"),
    [
        pytest.param(2, 1, {}, True, id="it ends, and a task that decides has failed"),
        pytest.param(1, 1, {}, True, id="one task is left"),
        pytest.param(2, 0, {"failed": 1}, True, id="it ends, and a task that is waited for has failed"),
        pytest.param(2, 0, {"upstream_failed": 1}, True, id="it ends, and a failure is passed on"),
        pytest.param(2, 0, {}, False, id="it ends, and nothing has failed"),
        pytest.param(3, 1, {"failed": 1, "upstream_failed": 1}, False, id="it does not end"),
        pytest.param(0, 1, {"failed": 1}, False, id="it has ended"),
        pytest.param(3, 0, {"failed": 1, "elements": 4, "awaited": 3}, True, id="a mapped task ends, and an instance has failed"),
        pytest.param(3, 0, {"failed": 1, "elements": 4, "awaited": 4}, False, id="a mapped task does not end"),
        pytest.param(3, 0, {"elements": 2, "awaited": 2}, False, id="a mapped task ends, and no instance has failed"),
    ],
)
def test_failed_tasks_are_read_where_they_may_decide(
    unfinished: int, leaves: int, task: Mapping[str, Any], may_fail: bool
) -> None:
    """Two tasks of the run are affected."""
    run = run_view(unfinished=unfinished, failed_leaves=leaves)

    found = runs_that_may_fail([run], [(1, 0), (1, 1)], {(1, 0): Instance(0, **task), (1, 1): Instance(1)})

    assert found == ({1} if may_fail else set())


def test_the_next_try_of_a_backfill_is_admitted_by_its_present_limits() -> None:
    """Its pool and priority may have changed during the attempt. A task that waits for its first try has them already."""
    world = SimulatedRun(graph("a*1", "b", "c < b"), backfill_id=7, pool="small", priority=3)
    world.admit("a", "b")

    world.finish(a=False, b=True)

    demands = [effect for effect in world.others if isinstance(effect, SetTaskDemand)]
    assert demands == [SetTaskDemand(1, 0, Demand("small", 1, -4, None, None))]
