"""Why requests about backfills are rejected: one table for all of them."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, A, dag_view, graph, task
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tidegate.handlers.backfills import rejections
from tidegate.schemas.backfill import BackfillSpec, BackfillView, Outlets, Reprocess
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged, BackfillRequested
from tidegate.schemas.state import BackfillState
from tidegate.schemas.timetable.spec import Cron, Dates
from tidegate.schemas.view import LockedDag

DAILY_AT = Cron(("0 12 * * *",))
SEQUENTIAL = graph(task("t", depends_on_past=True), timetable=DAILY_AT)
BY_DATASETS = graph("t", schedule=A)
AGAIN: dict[str, Any] = {"reprocess": Reprocess.FAILED}


def said(found: Iterator[RejectMessage]) -> tuple[tuple[str, str], ...]:
    """The reason, and the message up to its first colon or semicolon."""
    return tuple((it.reason, it.message.replace(";", ":").partition(":")[0]) for it in found)


def locked(of: Graph, **facts: Any) -> LockedDag:
    view = dag_view(of, **facts)
    return LockedDag(**{name: getattr(view, name) for name in LockedDag.__struct_fields__})


def requested(view: BackfillView, **facts: Any) -> BackfillRequested:
    spec = {name: getattr(view, name) for name in BackfillSpec.__struct_fields__}
    return BackfillRequested(backfill_id=1, **spec, **facts)


def test_a_dag_may_allow_a_backfill() -> None:
    assert list(rejections.uncreatable(requested(backfill()), backfill(), locked(DAILY))) == []


@pytest.mark.parametrize(
    ("of", "view", "expected"),
    [
        pytest.param(DAILY, backfill(), [], id="dates of a timetable"),
        pytest.param(DAILY, backfill(1, 2), [("no_dates", "start_date")], id="the future"),
        pytest.param(SEQUENTIAL, backfill(**AGAIN), [], id="in order, failed ones again"),
        pytest.param(SEQUENTIAL, backfill(is_reverse=True, **AGAIN), [("not_possible", "is_reverse")], id="K04"),
        pytest.param(SEQUENTIAL, backfill(), [("not_possible", "reprocess")], id="K05"),
        pytest.param(graph("t"), backfill(), [("no_dates", "logical_dates")], id="no timetable"),
        pytest.param(graph("t"), backfill(logical_dates=(NOW - DAY,)), [], id="a list"),
        pytest.param(DAILY, backfill(logical_dates=(NOW - DAY, NOW - 2 * DAY)), [], id="a list of ticks"),
        pytest.param(
            DAILY, backfill(logical_dates=(NOW - DAY, NOW - timedelta(hours=1))), [("no_dates", "logical_dates")], id="no tick"
        ),
        pytest.param(BY_DATASETS, backfill(**AGAIN), [], id="a replay"),
        pytest.param(BY_DATASETS, backfill(), [("not_possible", "reprocess")], id="a replay of nothing"),
        pytest.param(BY_DATASETS, backfill(is_reverse=True, **AGAIN), [("not_possible", "is_reverse")], id="a replay in reverse"),
    ],
)
def test_dates_that_can_have_no_runs_are_rejected(of: Graph, view: BackfillView, expected: list[tuple[str, str]]) -> None:
    found = list(rejections.unplannable(view, of))

    assert [(it.reason, it.field) for it in found] == expected
    assert not [it.message for it in found if " --" in it.message], "a form and the API have no options"


@pytest.mark.parametrize(
    ("of", "near"),
    [
        (DAILY, "2024-04-30 12:00:00Z before it and 2024-05-01 12:00:00Z after it"),
        (graph("t", timetable=Dates((NOW,))), "2024-05-01 12:00:00Z after it"),
        (graph("t", timetable=Dates((NOW - DAY,))), "2024-04-30 12:00:00Z before it"),
    ],
)
def test_a_date_that_is_no_tick_is_answered_with_the_nearest_ones(of: Graph, near: str) -> None:
    (rejected,) = rejections.unplannable(backfill(last=0, logical_dates=(NOW - timedelta(hours=1),)), of)

    said = "2024-05-01 11:00:00Z is no date of DAG 'd': its timetable has"
    assert rejected.message == f"{said} {near}; list one of these dates"


@pytest.mark.parametrize(
    ("view", "edges"),
    [
        pytest.param(backfill(), (), id="no cascade"),
        pytest.param(backfill(outlets=Outlets.CASCADE, **AGAIN), (("d", "b"),), id="a cascade"),
    ],
)
def test_a_cascade_can_be(view: BackfillView, edges: Sequence[tuple[str, str]]) -> None:
    assert list(rejections.no_cascade(view, edges, ())) == []


def test_two_backfills_have_no_date_in_common() -> None:
    other = msgspec.structs.replace(backfill(), id=2)

    listed = backfill(logical_dates=(NOW - DAY,))

    assert [it.reason for it in rejections.overlapping(backfill(), [backfill(), other])] == ["overlaps"]
    assert [it.field for view in (backfill(), listed) for it in rejections.overlapping(view, [other])] == [
        "start_date",
        "logical_dates",
    ]
    assert list(rejections.overlapping(backfill(-9, -6), [other])) == []


@pytest.mark.parametrize(
    ("action", "possible"),
    [
        (BackfillAction.PAUSE, "planned running"),
        (BackfillAction.RESUME, "paused"),
        (BackfillAction.CANCEL, "planned running paused"),
        (BackfillAction.RETRY, "planned running paused cancelled success failed"),
        (BackfillAction.DELETE, "cancelled success failed"),
    ],
)
def test_each_action_is_possible_in_some_states(action: BackfillAction, possible: str) -> None:
    request = BackfillActed(backfill_id=1, action=action)

    found = [state for state in BackfillState if not list(rejections.unactable(backfill(state=state), request, "done"))]

    assert found == [BackfillState(state) for state in possible.split()]


@pytest.mark.parametrize(
    ("kills", "again", "possible"), [(False, False, False), (False, True, True), (True, True, False), (True, False, False)]
)
def test_a_second_cancel_only_kills(*, kills: bool, again: bool, possible: bool) -> None:
    request = BackfillActed(backfill_id=1, action=BackfillAction.CANCEL, kills=again)
    view = backfill(state=BackfillState.CANCELLING, kills=kills)

    assert (not list(rejections.unactable(view, request, "cancelled"))) is possible


FAILED = {"dates": 5, "failed": 1, "is_planned": True}


@pytest.mark.parametrize(
    ("view", "newest", "expected"),
    [
        pytest.param(backfill(**FAILED), None, (), id="with its version"),
        pytest.param(backfill(cancelled=1), None, (), id="one cancelled"),
        pytest.param(backfill(stop_reason="x"), None, (), id="stopped before it planned all"),
        pytest.param(backfill(stop_reason="x", stages=("b",), is_planned=True), None, (), id="cancelled before its cascade"),
        pytest.param(
            backfill(stop_reason="x", stage=1, stages=("b", "c"), is_planned=True), None, (), id="cancelled between two stages"
        ),
        pytest.param(
            backfill(stop_reason="x", stage=1, stages=("b",), is_planned=True),
            None,
            (("not_possible", "backfill 1 has no failed or cancelled date"),),
            id="cancelled with its last stage done",
        ),
        pytest.param(backfill(stage=1, stages=("b",), scan_until=1, **FAILED), None, (), id="a cascade at work"),
        pytest.param(backfill(**FAILED), DAILY, (), id="with the newest version"),
        pytest.param(backfill(logical_dates=(NOW,), **{**FAILED, "is_planned": False}), graph("t"), (), id="a list to come"),
    ],
)
def test_failed_dates_can_be_retried_or_not(view: BackfillView, newest: Graph | None, expected: object) -> None:
    request = BackfillActed(backfill_id=1, action=BackfillAction.RETRY, newest_version=newest is not None)

    assert said(rejections.unretriable(view, request, (), newest)) == expected


ENDED: dict[str, Any] = {"state": BackfillState.SUCCESS}


@pytest.mark.parametrize(
    ("view", "later", "expected"),
    [
        pytest.param(backfill(), 9, [], id="running"),
        pytest.param(backfill(**ENDED), 9, [], id="ended"),
        pytest.param(backfill(), -2, ["backfill 1 ends at 2024-04-30 12:00:00Z already"], id="shorter"),
        pytest.param(backfill(is_reverse=True), 9, ["backfill 1 runs in reverse order"], id="in reverse"),
        pytest.param(backfill(logical_dates=(NOW,)), 9, ["backfill 1 has a list of dates"], id="a list"),
        pytest.param(backfill(stage=1, stages=("b",), scan_until=1), 9, ["backfill 1 has begun its cascade"], id="a cascade"),
        pytest.param(backfill(stages=("b",), **ENDED), 9, ["backfill 1 has begun its cascade"], id="an ended cascade"),
        pytest.param(backfill(stop_reason="x", failed=1, max_failed_runs=1), 9, ["backfill 1 stopped"], id="stopped"),
        pytest.param(backfill(state=BackfillState.CANCELLED), 9, ["backfill 1 is cancelled"], id="cancelled"),
        pytest.param(
            backfill(state=BackfillState.CANCELLED, stages=("b",)),
            9,
            ["backfill 1 has begun its cascade"],
            id="a retry would begin its cascade",
        ),
    ],
)
def test_a_backfill_can_be_extended_or_not(view: BackfillView, later: int, expected: list[str]) -> None:
    request = BackfillChanged(backfill_id=1, end_date=NOW + later * DAY)

    found = list(rejections.unchangeable(view, request, (), has_pool=True))

    assert [it.message.replace(": ", ";").partition(";")[0] for it in found] == expected


@pytest.mark.parametrize(
    ("facts", "says_retry"),
    [
        ({"state": BackfillState.CANCELLED, "cancelled": 1}, True),
        ({"state": BackfillState.CANCELLED, "is_planned": True}, False),
        ({"state": BackfillState.CANCELLING, "cancelled": 1}, False),
    ],
)
def test_no_extension_refers_to_a_retry_that_is_refused(facts: dict[str, Any], *, says_retry: bool) -> None:
    request = BackfillChanged(backfill_id=1, end_date=NOW + 9 * DAY)

    rejected = next(rejections.unchangeable(backfill(stop_reason="x", was_cancelled=True, **facts), request, (), has_pool=True))

    assert ("retry it first" in rejected.message) is says_retry
    assert "create another one" in rejected.message


def test_an_extension_overlaps_with_no_other() -> None:
    other = msgspec.structs.replace(backfill(0, 3), id=2)
    request = BackfillChanged(backfill_id=1, end_date=NOW + timedelta(hours=1))

    found = list(rejections.unchangeable(backfill(), request, [other], has_pool=True))

    assert [(it.reason, it.field) for it in found] == [("overlaps", "end_date")]


@pytest.mark.parametrize(("limit", "expected"), [(2, ["overlaps"]), (1, [])])
def test_one_that_goes_on_overlaps_with_no_other(limit: int, expected: list[str]) -> None:
    view = backfill(state=BackfillState.FAILED, failed=1, stop_reason="x")
    request = BackfillChanged(backfill_id=1, changes={"max_failed_runs": limit})
    other = msgspec.structs.replace(backfill(), id=2)

    found = list(rejections.unchangeable(view, request, [other], has_pool=True))

    assert [(it.reason, it.field) for it in found] == [(reason, "") for reason in expected]


@pytest.mark.parametrize(
    ("state", "has_pool", "expected"),
    [
        (BackfillState.PAUSED, True, []),
        (BackfillState.SUCCESS, True, []),
        (BackfillState.CANCELLING, True, ["not_possible"]),
        (BackfillState.RUNNING, False, ["no_such_pool"]),
    ],
)
def test_limits_change_unless_it_is_being_cancelled(state: BackfillState, expected: list[str], *, has_pool: bool) -> None:
    request = BackfillChanged(backfill_id=1, changes={"pool": "p"})

    assert [it.reason for it in rejections.unchangeable(backfill(state=state), request, (), has_pool=has_pool)] == expected


def test_an_unknown_backfill_is_named() -> None:
    assert rejections.no_such_backfill(7).message == "there is no backfill 7; `tidegate backfills list` shows all"
