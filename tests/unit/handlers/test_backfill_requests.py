"""Requests of users about backfills: what they change, and what is recorded."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, dag_view, message
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tests.unit.handlers.backfills.test_rejections import locked, requested
from tidegate.handlers import backfill_acted, backfill_changed, backfill_lagging, backfill_requested
from tidegate.schemas.backfill import BackfillView, Outlets, Reprocess
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.audit import RecordAudit
from tidegate.schemas.effect.backfill import (
    DeleteBackfillDates,
    InsertBackfill,
    NotifyBackfill,
    PinVersion,
    RetryDates,
    SetBackfillLimits,
    UpdateBackfill,
)
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged
from tidegate.schemas.queries.backfill_dates import LaggingRun
from tidegate.schemas.state import BackfillState

NEWEST = msgspec.structs.replace(DAILY, version_id=5)
NAME = "DAG d, backfill 1"
STOPPED: dict[str, Any] = {"dates": 3, "failed": 2, "stop_reason": "enough", "kills": True, "run_end_date": NOW}


def acted(view: BackfillView | None, action: BackfillAction, newest: Graph | None = None, **facts: Any) -> list[Effect]:
    request = BackfillActed(backfill_id=1, action=action, newest_version=newest is not None, **facts)
    return list(backfill_acted.decide([message(request)], backfill_acted.State(NOW, view, newest=newest)))


@pytest.mark.parametrize(
    ("before", "action", "state"),
    [
        ("planned", BackfillAction.PAUSE, "paused"),
        ("paused", BackfillAction.RESUME, "planned"),
        ("running", BackfillAction.CANCEL, "cancelling"),
        ("success", BackfillAction.DELETE, "success"),
    ],
)
def test_an_action_moves_a_backfill_and_is_recorded(before: str, action: BackfillAction, state: str) -> None:
    *others, update, record = acted(backfill(state=BackfillState(before)), action)

    assert isinstance(update, UpdateBackfill)
    assert update.backfill.state == state
    assert update.due_at == (None if state == "success" else NOW)
    assert record == RecordAudit(f"{backfill_acted.DONE[action]} a backfill", NAME, {})
    assert others == ([DeleteBackfillDates(1)] if action is BackfillAction.DELETE else [])


def test_one_with_dates_resumes_as_running() -> None:
    update = acted(backfill(state=BackfillState.PAUSED, dates=1), BackfillAction.RESUME)[0]

    assert isinstance(update, UpdateBackfill)
    assert update.backfill.state is BackfillState.RUNNING


def test_a_cancelled_backfill_plans_no_more_dates() -> None:
    update, record = acted(backfill(state=BackfillState.RUNNING), BackfillAction.CANCEL, kills=True)

    assert isinstance(update, UpdateBackfill)
    after = update.backfill
    assert (after.stop_reason, after.kills, after.was_cancelled) == ("backfill 1 was cancelled", True, True)
    assert not after.is_planned  # A retry plans the dates that are left.
    assert record == RecordAudit("cancelled a backfill", NAME, {"kills": True})


@pytest.mark.parametrize(("before", "after"), [("failed", "running"), ("paused", "paused")])
def test_a_retry_keeps_the_version(before: str, after: str) -> None:
    retry, update, _ = acted(backfill(state=BackfillState(before), **STOPPED), BackfillAction.RETRY)

    assert retry == RetryDates(1)
    assert isinstance(update, UpdateBackfill)
    view = update.backfill
    assert (view.state, view.failed, view.stop_reason, view.kills, view.run_end_date) == (after, 0, "", False, None)
    assert view.version_id == 1


def test_a_retry_takes_back_a_cancel() -> None:
    view = backfill(state=BackfillState.CANCELLED, was_cancelled=True, cancelled=1, **STOPPED)

    retry, update, _ = acted(view, BackfillAction.RETRY)

    assert retry == RetryDates(1)
    assert isinstance(update, UpdateBackfill)
    after = update.backfill
    assert (after.state, after.was_cancelled, after.cancelled, after.stop_reason) == (BackfillState.RUNNING, False, 0, "")
    assert update.due_at == NOW


def test_a_retry_with_the_newest_version_pins_and_records_it() -> None:
    pin, _, update, record = acted(backfill(state=BackfillState.FAILED, **STOPPED), BackfillAction.RETRY, NEWEST)

    assert pin == PinVersion(1, 5)
    assert isinstance(update, UpdateBackfill)
    assert update.backfill.version_id == 5
    details = {"version_id": 5, "previous_version_id": 1}
    assert record == RecordAudit("retried a backfill", NAME, details)


@pytest.mark.parametrize(
    ("view", "reason"),
    [(None, "no_such_backfill"), (backfill(deleted=True), "no_such_backfill"), (backfill(), "not_possible")],
)
def test_a_rejected_action_changes_nothing(view: BackfillView | None, reason: str) -> None:
    (rejected,) = acted(view, BackfillAction.RETRY)

    assert isinstance(rejected, RejectMessage)
    assert rejected.reason == reason


def changed(view: BackfillView | None, **facts: Any) -> list[Effect]:
    request = BackfillChanged(backfill_id=1, **facts)
    return list(backfill_changed.decide([message(request)], backfill_changed.State(NOW, view)))


@pytest.mark.parametrize(
    ("before", "limit", "reason"),
    [
        pytest.param({"failed": 2, "stop_reason": "enough"}, 3, "", id="more may fail"),
        pytest.param({"failed": 2, "stop_reason": "enough"}, 2, "enough", id="as many as before"),
        pytest.param({"failed": 2, "stop_reason": "enough"}, 0, "", id="any number may fail"),
        pytest.param({}, 1, "", id="none failed"),
    ],
)
def test_limits_change_and_a_stopped_backfill_may_go_on(before: dict[str, Any], limit: int, reason: str) -> None:
    view = backfill(state=BackfillState.RUNNING, **before)

    *retry, update, limits, record = changed(view, changes={"max_failed_runs": limit})

    assert retry == ([RetryDates(1, failed=False)] if before and not reason else [])
    after = msgspec.structs.replace(view, max_failed_runs=limit, stop_reason=reason)
    assert (update, limits) == (UpdateBackfill(after, NOW), SetBackfillLimits(after))
    assert record == RecordAudit("changed a backfill", NAME, {"max_failed_runs": limit})


def test_a_cascade_whose_stop_is_lifted_begins_anew() -> None:
    """A cancelled date may be of an earlier stage, and has no other version than that of its stage."""
    view = backfill(state=BackfillState.RUNNING, failed=2, stop_reason="enough", stages=("b",), stage=1, scanned=3, scan_until=4)

    _, update, *_ = changed(view, changes={"max_failed_runs": 3})

    assert isinstance(update, UpdateBackfill)
    assert (update.backfill.stage, update.backfill.scanned, update.backfill.is_planned) == (0, 0, True)


@pytest.mark.parametrize(("state", "limit"), [("failed", 3), ("failed", 2), ("cancelled", 3), ("success", 3)])
def test_the_limits_of_an_ended_backfill_change_and_one_that_stopped_goes_on(state: str, limit: int) -> None:
    view = backfill(state=BackfillState(state), was_cancelled=state == "cancelled", **(STOPPED if state != "success" else {}))

    *_, update, limits, _ = changed(view, changes={"max_failed_runs": limit})

    assert isinstance(update, UpdateBackfill)
    goes_on = (state, limit) == ("failed", 3)
    after = update.backfill
    assert (after.state, update.due_at) == (BackfillState.RUNNING if goes_on else state, NOW if goes_on else None)
    assert (after.stop_reason == "", after.run_end_date) == (
        goes_on or state == "success",
        None if goes_on else view.run_end_date,
    )
    assert limits == SetBackfillLimits(after)


@pytest.mark.parametrize(("before", "state"), [("success", "running"), ("paused", "paused")])
def test_an_extended_backfill_goes_on_with_dates_up_to_now(before: str, state: str) -> None:
    view = backfill(state=BackfillState(before), is_planned=True, horizon=NOW - DAY, run_end_date=NOW)

    update, *_, record = changed(view, end_date=NOW)

    assert isinstance(update, UpdateBackfill)
    after = update.backfill
    assert (after.state, after.end_date, after.horizon, after.is_planned, after.run_end_date) == (state, NOW, NOW, False, None)
    assert record == RecordAudit("changed a backfill", NAME, {"end_date": NOW})


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (None, "no_such_backfill"),
        (backfill(deleted=True), "no_such_backfill"),
        (backfill(state=BackfillState.CANCELLING), "not_possible"),
    ],
)
def test_a_rejected_change_changes_nothing(view: BackfillView | None, reason: str) -> None:
    (rejected,) = changed(view, changes={"priority": 1})

    assert isinstance(rejected, RejectMessage)
    assert rejected.reason == reason


def created(view: BackfillView, **state: Any) -> list[Effect]:
    found = backfill_requested.State(NOW, **{"dag": locked(DAILY), **state})
    return list(backfill_requested.decide([message(requested(view))], found))


def test_a_new_backfill_has_the_newest_version_and_the_stages_of_its_cascade() -> None:
    view = backfill(outlets=Outlets.CASCADE, reprocess=Reprocess.FAILED)

    insert, record = created(view, edges=(("d", "b"), ("b", "c")))

    assert insert == InsertBackfill(msgspec.structs.replace(view, stages=("b", "c")))
    details = {"start_date": view.start_date, "end_date": view.end_date, "reprocess": Reprocess.FAILED}
    assert record == RecordAudit("created a backfill", NAME, details)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"dag": None}, "no_such_dag"),
        ({"dag": locked(dag_view(DAILY).graph, is_stale=True)}, "not_possible"),
        ({"has_pool": False}, "no_such_pool"),
        ({"others": (msgspec.structs.replace(backfill(), id=2),)}, "overlaps"),
        ({"edges": (("d", "d"),)}, "not_possible"),
    ],
)
def test_a_rejected_backfill_is_not_inserted(state: dict[str, Any], reason: str) -> None:
    (rejected,) = created(backfill(), **state)

    assert isinstance(rejected, RejectMessage)
    assert rejected.reason == reason


def test_a_lagging_backfill_is_notified_of_each_run() -> None:
    state = backfill_lagging.State(NOW, (LaggingRun(1, 7, reopened=True), LaggingRun(1, 8, reopened=False)))

    assert list(backfill_lagging.decide([], state)) == [
        NotifyBackfill(1, 7, reopened=True, at=NOW),
        NotifyBackfill(1, 8, reopened=False, at=NOW),
    ]


def test_a_retried_cascade_begins_again_with_its_first_dag() -> None:
    view = backfill(state=BackfillState.FAILED, stages=("b",), stage=1, stage_version_id=3, scanned=2, scan_until=2, **STOPPED)

    _, update, _ = acted(view, BackfillAction.RETRY)

    assert isinstance(update, UpdateBackfill)
    after = update.backfill
    assert (after.stage, after.stage_version_id, after.scanned, after.is_planned) == (0, None, 0, True)
