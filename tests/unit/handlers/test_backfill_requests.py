"""Requests of users about backfills: what they change, and what is recorded."""

from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph, message, run_view
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tests.unit.handlers.backfills.test_rejections import locked, requested
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import backfill_acted, backfill_changed, backfill_lagging, backfill_requested
from tidegate.handlers.backfills.move_version import move_to_version
from tidegate.handlers.backfills.rerun import LockedRun
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
from tidegate.schemas.effect.task import InsertTask
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged
from tidegate.schemas.queries.backfill_dates import LaggingRun
from tidegate.schemas.state import BackfillState, TaskState
from tidegate.schemas.view import Instance

NEWEST = msgspec.structs.replace(DAILY, version_id=5)
WITH_NEW_TASK = graph("t", "u < t", version_id=5, timetable=DAILY.timetable)
NAME = "DAG d, backfill 1"
STOPPED: dict[str, Any] = {"dates": 3, "failed": 2, "stop_reason": "enough", "kills": True, "run_end_date": NOW}


def acted(
    view: BackfillView | None,
    action: BackfillAction,
    newest: Graph | None = None,
    unended: tuple[LockedRun, ...] = (),
    *,
    has_pool: bool = True,
    **facts: Any,
) -> list[Effect]:
    request = BackfillActed(backfill_id=1, action=action, newest_version=newest is not None, **facts)
    state = backfill_acted.State(NOW, view, newest=newest, unended=unended, has_pool=has_pool)
    return well_formed(backfill_acted.decide([message(request)], state))


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
    assert update.backfill.deleted is (action is BackfillAction.DELETE)
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


def unended() -> LockedRun:
    return LockedRun(run_view(7, backfill_id=1), DAILY, {0: Instance(0, TaskState.SCHEDULED)})


def test_runs_that_have_not_ended_get_the_newest_version_too() -> None:
    effects = acted(backfill(state=BackfillState.FAILED, **STOPPED), BackfillAction.RETRY, WITH_NEW_TASK, (unended(),))

    after = next(effect.backfill for effect in effects if isinstance(effect, UpdateBackfill))
    assert effects[2:-2] == list(move_to_version(after, unended(), WITH_NEW_TASK, NOW))
    assert [effect.instance.index for effect in effects if isinstance(effect, InsertTask)] == [1]


NO_BACKFILL = RejectMessage("no_such_backfill", "there is no backfill 1; `tidegate backfills list` shows all")


@pytest.mark.parametrize(
    ("view", "action", "newest", "rejected"),
    [
        (None, "retry", None, NO_BACKFILL),
        (backfill(deleted=True), "retry", None, NO_BACKFILL),
        (backfill(), "retry", None, RejectMessage("not_possible", "backfill 1 has no failed or cancelled date")),
        (backfill(), "resume", None, RejectMessage("not_possible", "backfill 1 is planned: it cannot be resumed")),
        (
            backfill(state=BackfillState.FAILED, is_reverse=True, **STOPPED),
            "retry",
            msgspec.structs.replace(NEWEST, sequential=True),
            RejectMessage(
                "not_possible",
                "tasks of DAG 'd' depend on the previous run: its dates cannot run in reverse order",
                "is_reverse",
            ),
        ),
    ],
    ids=["no backfill", "deleted", "nothing to retry", "not paused", "no retry in reverse with the newest version"],
)
def test_a_rejected_action_changes_nothing(
    view: BackfillView | None, action: str, newest: Graph | None, rejected: RejectMessage
) -> None:
    assert acted(view, BackfillAction(action), newest) == [rejected]


def test_a_retry_needs_the_pool_of_the_backfill() -> None:
    effects = acted(backfill(state=BackfillState.FAILED, pool="few", **STOPPED), BackfillAction.RETRY, has_pool=False)

    reason = "there is no pool 'few'; `tidegate pools set few SLOTS` makes it"
    assert effects == [RejectMessage("no_such_pool", reason, "pool")]


def changed(view: BackfillView | None, **facts: Any) -> list[Effect]:
    request = BackfillChanged(backfill_id=1, **facts)
    return well_formed(backfill_changed.decide([message(request)], backfill_changed.State(NOW, view)))


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
    ("view", "reason", "said"),
    [
        (None, "no_such_backfill", NO_BACKFILL.message),
        (backfill(deleted=True), "no_such_backfill", NO_BACKFILL.message),
        (
            backfill(state=BackfillState.CANCELLING),
            "not_possible",
            "backfill 1 is cancelling: it cannot be changed; wait for its end, or end its running runs by "
            "`tidegate backfills cancel 1 --kill`",
        ),
    ],
)
def test_a_rejected_change_changes_nothing(view: BackfillView | None, reason: str, said: str) -> None:
    assert changed(view, changes={"priority": 1}) == [RejectMessage(reason, said)]


def created(view: BackfillView, **state: Any) -> list[Effect]:
    found = backfill_requested.State(NOW, **{"dag": locked(DAILY), **state})
    return well_formed(backfill_requested.decide([message(requested(view))], found))


def test_a_new_backfill_has_the_newest_version_and_the_stages_of_its_cascade() -> None:
    view = backfill(outlets=Outlets.CASCADE, reprocess=Reprocess.FAILED)

    insert, record = created(view, edges=(("d", "b"), ("b", "c")))

    assert insert == InsertBackfill(msgspec.structs.replace(view, stages=("b", "c")))
    details = {"start_date": view.start_date, "end_date": view.end_date, "reprocess": Reprocess.FAILED}
    assert record == RecordAudit("created a backfill", NAME, details)


@pytest.mark.parametrize(("asked", "runs"), [(None, 3), (5, 5)])
def test_a_backfill_without_a_limit_of_runs_has_that_of_its_dag(asked: int | None, runs: int) -> None:
    of_dag = msgspec.structs.replace(DAILY, max_active_runs=3)
    request = msgspec.structs.replace(requested(backfill()), max_active_runs=asked)

    insert, _ = backfill_requested.decide([message(request)], backfill_requested.State(NOW, locked(of_dag)))

    assert isinstance(insert, InsertBackfill)
    assert insert.backfill.max_active_runs == runs


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ({"dag": None}, "no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all"),
        ({"dag": locked(DAILY, is_stale=True)}, "not_possible", "DAG 'd' is in no DAG file: its runs would never start"),
        ({"has_pool": False}, "no_such_pool", "there is no pool 'few'; `tidegate pools set few SLOTS` makes it"),
        ({"others": (msgspec.structs.replace(backfill(), id=2),)}, "overlaps", ""),
        ({"edges": (("d", "d"),)}, "not_possible", ""),
        (
            {"edges": (("d", "e"),), "refusing": ("e",)},
            "not_possible",
            "the cascade would come to DAG 'e', whose file says allow_backfills=False; choose events for outlets",
        ),
    ],
    ids=["no DAG", "in no file", "no pool", "overlaps", "a cycle", "a consumer that refuses"],
)
def test_a_rejected_backfill_is_not_inserted(state: dict[str, Any], reason: str, said: str) -> None:
    (rejected,) = created(backfill(pool="few", reprocess=Reprocess.COMPLETED), **state)

    assert isinstance(rejected, RejectMessage)
    assert (rejected.reason, rejected.message if said else "") == (reason, said)


def test_a_lagging_backfill_is_notified_of_each_run() -> None:
    state = backfill_lagging.State(NOW, (LaggingRun(1, 7, reopened=True), LaggingRun(1, 8, reopened=False)))

    assert well_formed(backfill_lagging.decide([], state)) == [
        NotifyBackfill(1, 7, reopened=True, at=NOW),
        NotifyBackfill(1, 8, reopened=False, at=NOW),
    ]


def test_a_retried_cascade_begins_again_with_its_first_dag() -> None:
    view = backfill(state=BackfillState.FAILED, stages=("b",), stage=1, stage_version_id=3, scanned=2, scan_until=2, **STOPPED)

    _, update, _ = acted(view, BackfillAction.RETRY)

    assert isinstance(update, UpdateBackfill)
    after = update.backfill
    assert (after.stage, after.stage_version_id, after.scanned, after.is_planned) == (0, None, 0, True)
