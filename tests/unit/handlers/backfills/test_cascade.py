"""The order in which a cascade takes DAGs."""

from typing import Any

import pytest

from tests.shapes import NOW
from tests.unit.handlers.backfills.test_dates import backfill
from tidegate.handlers.backfills.cascade import cycle_of, plan_consumers, postpone, stages_of, version_of_runs
from tidegate.schemas.backfill import Consumer, ExistingRun
from tidegate.schemas.effect.backfill import InsertDate, RerunDate
from tidegate.schemas.state import DateState, RunState


@pytest.mark.parametrize(
    ("edges", "stages"),
    [
        pytest.param([], (), id="no consumer"),
        pytest.param([("d", "b"), ("b", "c")], ("b", "c"), id="a chain"),
        pytest.param([("d", "c"), ("d", "b"), ("b", "c")], ("b", "c"), id="a short way and a long one"),
        pytest.param([("d", "b"), ("d", "c"), ("b", "e"), ("c", "e")], ("b", "c", "e"), id="a diamond"),
    ],
)
def test_each_dag_comes_after_all_that_it_consumes_from(edges: list[tuple[str, str]], stages: tuple[str, ...]) -> None:
    assert stages_of("d", edges) == stages
    assert cycle_of(edges) is None


@pytest.mark.parametrize(
    ("stage", "of_stage", "version"),
    [
        pytest.param(0, None, 2, id="the DAG of the backfill keeps the version of the request"),
        pytest.param(1, None, 9, id="a stage begins with the current one"),
        pytest.param(1, 8, 8, id="and keeps it"),
    ],
)
def test_new_runs_have_the_version_of_their_stage(stage: int, of_stage: int | None, version: int) -> None:
    view = backfill(version_id=2, stage=stage, stages=("b",), stage_version_id=of_stage)

    assert version_of_runs(view, current=9) == version


def test_a_circle_is_named() -> None:
    assert cycle_of([("d", "b"), ("b", "c"), ("c", "b")]) == ["c", "b", "c"]


EDGES = (("d", "a"), ("d", "b"), ("b", "c"), ("d", "x"))


@pytest.mark.parametrize(
    ("stage", "held", "stages"),
    [
        pytest.param(2, {"b"}, ("a", "x", "b", "c"), id="its branch comes last"),
        pytest.param(2, {"b", "x"}, ("a", "b", "c", "x"), id="nothing else is left"),
        pytest.param(1, {"a"}, ("b", "c", "x", "a"), id="others go on"),
    ],
)
def test_a_held_dag_is_postponed_with_what_consumes_from_it(stage: int, held: set[str], stages: tuple[str, ...]) -> None:
    facts: dict[str, Any] = {"stage": stage, "stages": ("a", "b", "c", "x"), "stage_version_id": 3, "is_planned": True}
    view = backfill(dates=9, scanned=5, scan_until=7, **facts)

    after = postpone(view, EDGES, held)

    assert after.stages == stages
    assert (after == view) is (stages == view.stages)
    if after != view:
        assert (after.stage, after.stage_version_id) == (stage, None)
        assert (after.scanned, after.scan_until, after.is_planned) == (0, 9, False)


def test_a_consumer_that_ran_too_early_runs_again_beside_new_ones() -> None:
    run, active = ExistingRun(7, "r", RunState.SUCCESS), ExistingRun(8, "s", RunState.RUNNING)
    old = ExistingRun(9, "t", RunState.RUNNING)
    found = [Consumer(NOW, run, 3), Consumer(NOW, run), Consumer(NOW, active), Consumer(NOW, old, is_outdated=True)]

    planned = list(plan_consumers(backfill(stage=1, stages=("a",), dates=4), found))

    assert planned == [
        RerunDate(1, 3),
        InsertDate(1, 5, NOW, DateState.RETRY, 7, is_whole=True),
        InsertDate(1, 6, NOW, DateState.SKIPPED, 8, "its run 's' is running"),
        InsertDate(1, 7, NOW, DateState.RETRY, 9, "its run 't' has read older data, and runs again after its end", is_whole=True),
    ]
