"""One step of a cascade or a replay: which runs it finds, and when its next stage begins."""

from datetime import datetime
from typing import Any

import pytest

from tests.shapes import NOW
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tests.unit.handlers.backfills.test_step import NEWER, ended, of, step
from tidegate.handlers.backfills.cascade import MAX_SCANNED
from tidegate.handlers.backfills.rerun import LockedRun
from tidegate.handlers.backfills.step import DueBackfill, take_step
from tidegate.schemas.backfill import BackfillView, Consumer, ExistingRun, Reprocess, Retry
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import CloseDate, InsertDate, TakeRun, UpdateBackfill
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.state import BackfillState, DateState, RunState, TaskState
from tidegate.schemas.view import Instance


def test_the_run_of_a_consumer_runs_again_whole_and_keeps_its_conf() -> None:
    view = backfill(stage=1, stages=("e",), dag_params={"a": 1}, dates=1)
    done = LockedRun(ended().run, DAILY, {0: Instance(0, TaskState.SUCCESS, try_number=1)})

    effects, _ = step(view, retries={1: Retry(7, is_whole=True, logical_date=NOW)}, runs={7: done})

    assert [taken.conf for taken in of(effects, TakeRun)] == [None]
    assert [run.unfinished for run in of(effects, UpdateRun)] == [1]


@pytest.mark.parametrize("is_gone", [False, True])
def test_consumers_are_found_date_by_date(*, is_gone: bool) -> None:
    view = backfill(stage=1, stages=("e", "f"), dates=900, succeeded=900, scan_until=900)
    found = tuple(Consumer(NOW, ExistingRun(id_, "r", state)) for id_, state in enumerate((RunState.SUCCESS, RunState.RUNNING)))

    effects, update = step(view, consumers=() if is_gone else found, is_gone=is_gone)

    after = update.backfill
    if is_gone:
        assert (after.stage, after.scan_until, after.scanned) == (2, 900, 0)
    else:
        assert [(date.state, date.is_whole) for date in of(effects, InsertDate)] == [
            (DateState.RETRY, True),
            (DateState.SKIPPED, False),
        ]
        assert (after.stage, after.scanned, after.dates, after.skipped, after.is_planned) == (1, 500, 902, 1, False)
    assert update.due_at == NOW


@pytest.mark.parametrize(
    ("scanned", "held", "is_planned", "due_at"),
    [
        pytest.param(0, set[str](), False, NOW, id="dates are left"),
        pytest.param(500, set[str](), True, NOW, id="the runs of the stage start next"),
        pytest.param(0, {"e"}, False, None, id="the only stage is held"),
    ],
)
def test_a_scan_without_consumers_is_followed_by_a_step(
    scanned: int, held: set[str], due_at: datetime | None, *, is_planned: bool
) -> None:
    view = backfill(stage=1, stages=("e",), dates=900, succeeded=899, scanned=scanned, scan_until=900)

    _, update = step(view, NEWER, held=held)

    assert (update.backfill.is_planned, update.due_at) == (is_planned, due_at)
    assert update.backfill.stage_version_id == (None if held else NEWER.version_id)


def test_consumers_are_not_looked_for_while_it_is_paused() -> None:
    """It would be visited without a pause."""
    view = backfill(stage=1, stages=("e",), dates=9, succeeded=9, scan_until=9, state=BackfillState.PAUSED)

    _, update = step(view)

    assert (update.backfill.scanned, update.due_at) == (0, None)


@pytest.mark.parametrize("states", [(), (RunState.SUCCESS,)])
def test_a_paused_consumer_is_waited_for_only_if_one_of_its_runs_is_concerned(states: tuple[RunState, ...]) -> None:
    view = backfill(stage=1, stages=("e", "f"), dates=9, succeeded=9, scan_until=9)
    found = tuple(Consumer(NOW, ExistingRun(id_, "r", state)) for id_, state in enumerate(states))

    effects, update = step(view, consumers=found, is_inactive=True)

    assert [date.state for date in of(effects, InsertDate)] == [DateState.RETRY] * len(states)
    assert (update.backfill.stage, update.backfill.dates) == ((1, 10) if states else (2, 9))
    following = step(update.backfill, is_inactive=True)[1]
    assert following.backfill.state is (BackfillState.PLANNED if states else BackfillState.SUCCESS)
    assert following.due_at is None


def test_a_stage_without_consumers_is_followed_by_the_next_and_the_last_by_the_end() -> None:
    view = backfill(stage=1, stages=("e", "f"), dates=1, succeeded=1, scan_until=1)

    following = step(view)[1].backfill
    last = step(following)[1].backfill

    assert (following.stage, following.stage_dag_id, following.state) == (2, "f", BackfillState.PLANNED)
    assert following.is_planned is False
    assert (last.state, last.run_end_date) == (BackfillState.SUCCESS, NOW)


def test_a_cascade_of_no_dates_ends() -> None:
    """No stage of it begins: the clock locks the DAGs of stages once a date has been planned."""
    _, update = step(backfill(stages=("e",), is_planned=True))

    assert (update.backfill.state, update.backfill.stage, update.due_at) == (BackfillState.SUCCESS, 0, None)


def test_the_runs_of_a_replay_are_its_dates() -> None:
    view = backfill(reprocess=Reprocess.FAILED)
    found = (Consumer(NOW - DAY, ExistingRun(7, "r", RunState.FAILED)), Consumer(NOW, ExistingRun(8, "s", RunState.SUCCESS)))

    effects, update = step(view, consumers=found, is_replay=True)

    assert [date.state for date in of(effects, InsertDate)] == [DateState.RETRY, DateState.SKIPPED]
    after = update.backfill
    assert (after.state, after.dates, after.skipped, after.planned_until) == (BackfillState.RUNNING, 2, 1, NOW)
    assert (after.is_planned, update.due_at) == (True, NOW)
    assert step(backfill(dates=2, skipped=1), is_replay=True)[1].backfill.planned_until is None


@pytest.mark.parametrize(("runs", "is_planned"), [(MAX_SCANNED - 1, True), (MAX_SCANNED, False)])
def test_a_replay_goes_on_after_as_many_runs_as_a_step_looks_for(runs: int, *, is_planned: bool) -> None:
    found = tuple(Consumer(NOW + id_ * DAY, ExistingRun(id_, "r", RunState.SUCCESS)) for id_ in range(1, runs + 1))

    after = step(backfill(), consumers=found, is_replay=True)[1].backfill

    assert (after.is_planned, after.planned_until) == (is_planned, NOW + runs * DAY)


def test_dates_of_a_deleted_stage_end() -> None:
    view = backfill(stage=1, stages=("e",), dates=2, succeeded=1, is_planned=True)

    effects, update = step_without_version(view, retries={2: Retry(7, is_whole=True, logical_date=NOW)}, is_gone=True)

    assert effects == [CloseDate(1, 2, DateState.SKIPPED, reason="its run was deleted")]
    assert (update.backfill.state, update.backfill.skipped) == (BackfillState.SUCCESS, 1)


def step_without_version(view: BackfillView, **work: Any) -> tuple[list[Effect], UpdateBackfill]:
    """A step without the version of a DAG."""
    *effects, update = take_step(DueBackfill(backfill=view, **work), NOW)
    assert isinstance(update, UpdateBackfill)
    return effects, update


@pytest.mark.parametrize(("state", "stages"), [(BackfillState.RUNNING, ("f", "e")), (BackfillState.PAUSED, ("e", "f"))])
def test_a_cascade_goes_on_with_another_dag_while_one_is_held(state: BackfillState, stages: tuple[str, ...]) -> None:
    view = backfill(stage=1, stages=("e", "f"), dates=2, succeeded=1, scan_until=1, state=state)

    effects, update = step_without_version(view, held={"e"}, edges=(("d", "e"), ("d", "f")), is_busy=True)

    assert (effects, update.backfill.stages, update.backfill.stage) == ([], stages, 1)
    assert update.due_at == (NOW if state is BackfillState.RUNNING else None)


@pytest.mark.parametrize(("stage", "is_busy", "after"), [(1, False, 2), (1, True, 1), (2, False, 2)])
def test_a_stage_is_done_though_runs_of_later_stages_are_left(stage: int, after: int, *, is_busy: bool) -> None:
    view = backfill(stage=stage, stages=("e", "f"), dates=2, succeeded=1, scan_until=1, is_planned=True)

    update = step(view, is_busy=is_busy)[1]

    assert (update.backfill.stage, update.backfill.run_end_date) == (after, None)
