"""What each rejection of a request about backfills says, in full, and which field of the request it is about."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, graph
from tests.unit.handlers.backfills.test_dates import DAILY, DAY, backfill
from tests.unit.handlers.backfills.test_rejections import BY_DATASETS, DAILY_AT, FAILED, SEQUENTIAL, locked, requested
from tidegate.handlers.backfills.rejections import no_cascade, overlapping, unactable, unchangeable, uncreatable, unretriable
from tidegate.schemas.backfill import BackfillView, Outlets, Reprocess, limits_version
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged
from tidegate.schemas.params import ParamSpec
from tidegate.schemas.state import BackfillState
from tidegate.schemas.timetable.spec import Every

CANCELLING = backfill(state=BackfillState.CANCELLING)
REFUSING = graph("t", timetable=DAILY_AT, allow_backfills=False)
OTHER_PARAMS = graph("t", timetable=DAILY_AT, params={"x": ParamSpec()})
SPAN = "from 2024-04-26 12:00:00Z to 2024-04-30 12:00:00Z"
KILL = "end its running runs by `tidegate backfills cancel 1 --kill`"
AGAIN: dict[str, Any] = {"reprocess": Reprocess.FAILED}
ALLOWS_NONE = "DAG 'd' allows no backfills: its file says allow_backfills=False"
PARAMS = "the parameters of DAG 'd' changed after the conf was checked; repeat the request"
IN_ORDER = "tasks of DAG 'd' depend on the previous run: its dates cannot run in reverse order"

Found = Iterator[RejectMessage]


def said(found: Found) -> list[tuple[str, str, str]]:
    return [(it.reason, it.field, it.message) for it in found]


def created(view: BackfillView, of: Graph, **dag: Any) -> Found:
    return uncreatable(requested(view), view, locked(of, **dag))


def retried(view: BackfillView, newest: Graph | None = None, *others: BackfillView, has_pool: bool = True) -> Found:
    request = BackfillActed(backfill_id=1, action=BackfillAction.RETRY, newest_version=newest is not None)
    return unretriable(view, request, others, newest, has_pool=has_pool)


def changed(view: BackfillView, *others: BackfillView, has_pool: bool = True, **facts: Any) -> Found:
    return unchangeable(view, BackfillChanged(backfill_id=1, **facts), others, has_pool=has_pool)


def renumbered(view: BackfillView) -> BackfillView:
    return msgspec.structs.replace(view, id=2)


@pytest.mark.parametrize(
    ("rejected", "reason", "field", "message"),
    [
        pytest.param(
            lambda: created(backfill(), DAILY, is_stale=True),
            "not_possible",
            "dag_id",
            "DAG 'd' is in no DAG file: its runs would never start",
            id="a stale DAG",
        ),
        pytest.param(lambda: created(backfill(), REFUSING), "not_possible", "dag_id", ALLOWS_NONE, id="not allowed"),
        pytest.param(lambda: created(backfill(), OTHER_PARAMS), "params_changed", "", PARAMS, id="other parameters"),
        pytest.param(
            lambda: created(backfill(1, 2), DAILY),
            "no_dates",
            "start_date",
            "DAG 'd' has no date from 2024-05-02 12:00:00Z to 2024-05-03 12:00:00Z that is due by 2024-05-01 12:00:00Z",
            id="the future",
        ),
        pytest.param(
            lambda: created(backfill(is_reverse=True, **AGAIN), SEQUENTIAL),
            "not_possible",
            "is_reverse",
            IN_ORDER,
            id="in reverse",
        ),
        pytest.param(
            lambda: created(backfill(), SEQUENTIAL),
            "not_possible",
            "reprocess",
            "tasks of DAG 'd' depend on the previous run, and dates that have runs already would be skipped; "
            "choose failed or completed for reprocess",
            id="in order, none again",
        ),
        pytest.param(
            lambda: created(backfill(), graph("t")),
            "no_dates",
            "logical_dates",
            "DAG 'd' has no timetable that gives a range of dates; list each date",
            id="no timetable",
        ),
        pytest.param(
            lambda: created(backfill(), BY_DATASETS),
            "not_possible",
            "reprocess",
            "datasets start the runs of DAG 'd': only its runs that were created in this time can run again, with their events; "
            "choose failed or completed for reprocess",
            id="a replay of nothing",
        ),
        pytest.param(
            lambda: created(backfill(is_reverse=True, **AGAIN), BY_DATASETS),
            "not_possible",
            "is_reverse",
            "datasets start the runs of DAG 'd': they cannot run again in reverse order",
            id="a replay in reverse",
        ),
    ],
)
def test_a_new_backfill_is_rejected(rejected: Callable[[], Found], reason: str, field: str, message: str) -> None:
    assert said(rejected()) == [(reason, field, message)]


@pytest.mark.parametrize(
    ("rejected", "reason", "field", "message"),
    [
        pytest.param(
            lambda: no_cascade(backfill(outlets=Outlets.CASCADE), (), ()),
            "not_possible",
            "reprocess",
            "a cascade follows runs that run again, and with reprocess none no run does; "
            "choose failed or completed for reprocess",
            id="none again",
        ),
        pytest.param(
            lambda: no_cascade(backfill(**AGAIN), (("d", "b"),), ("b", "c")),
            "not_possible",
            "outlets",
            "the cascade would come to DAG 'b', whose file says allow_backfills=False; choose events for outlets",
            id="a consumer refuses",
        ),
        pytest.param(
            lambda: no_cascade(backfill(**AGAIN), (("d", "b"), ("b", "c"), ("c", "b")), ()),
            "not_possible",
            "outlets",
            "DAGs consume from each other in a cycle: c > b > c; a cascade would have no end; choose events for outlets",
            id="a cycle",
        ),
    ],
)
def test_a_cascade_is_rejected(rejected: Callable[[], Found], reason: str, field: str, message: str) -> None:
    assert said(rejected()) == [(reason, field, message)]


@pytest.mark.parametrize(
    ("view", "other", "field", "message"),
    [
        pytest.param(
            backfill(),
            renumbered(backfill(state=BackfillState.RUNNING)),
            "start_date",
            f"backfill 2 of DAG 'd' is running and has dates of the same time, {SPAN}; "
            "wait for its end, cancel it, or choose other dates",
            id="one that runs",
        ),
        pytest.param(
            renumbered(backfill(logical_dates=(NOW - DAY,))),
            CANCELLING,
            "logical_dates",
            f"backfill 1 of DAG 'd' is cancelling and has dates of the same time, {SPAN}; "
            f"wait for its end, {KILL}, or choose other dates",
            id="one that is being cancelled",
        ),
    ],
)
def test_dates_of_another_backfill_are_rejected(view: BackfillView, other: BackfillView, field: str, message: str) -> None:
    assert said(overlapping(view, [other])) == [("overlaps", field, message)]
    assert said(retried(msgspec.structs.replace(view, failed=1), None, other)) == [("overlaps", field, message)]


def test_the_dates_around_those_of_another_backfill_are_free() -> None:
    listed = backfill(-9, 2, logical_dates=(NOW - 9 * DAY, NOW + 2 * DAY))

    assert list(overlapping(listed, [renumbered(backfill())])) == []


OLDER = "the newest version of DAG 'd' is older than that of backfill 1: the ids of attempts would repeat"


@pytest.mark.parametrize(
    ("rejected", "reason", "field", "message"),
    [
        pytest.param(
            lambda: retried(backfill()), "not_possible", "", "backfill 1 has no failed or cancelled date", id="nothing failed"
        ),
        pytest.param(
            lambda: retried(backfill(pool="my pool", **FAILED), has_pool=False),
            "no_such_pool",
            "pool",
            "there is no pool 'my pool'; `tidegate pools set 'my pool' SLOTS` makes it",
            id="no pool",
        ),
        pytest.param(lambda: retried(backfill(**FAILED), REFUSING), "not_possible", "dag_id", ALLOWS_NONE, id="not allowed"),
        pytest.param(lambda: retried(backfill(**FAILED), OTHER_PARAMS), "params_changed", "", PARAMS, id="other parameters"),
        pytest.param(
            lambda: retried(backfill(version_id=2, **FAILED), DAILY),
            "not_possible",
            "",
            f"{OLDER}; retry with the version of the backfill",
            id="an older version",
        ),
        pytest.param(
            lambda: retried(backfill(**FAILED | {"is_planned": False}), graph("t")),
            "not_possible",
            "",
            "the newest version of DAG 'd' has no timetable that gives the dates not planned yet; "
            "retry with the version of the backfill",
            id="no timetable",
        ),
        pytest.param(
            lambda: retried(backfill(is_reverse=True, **FAILED), SEQUENTIAL),
            "not_possible",
            "is_reverse",
            IN_ORDER,
            id="in reverse",
        ),
    ],
)
def test_a_retry_is_rejected(rejected: Callable[[], Found], reason: str, field: str, message: str) -> None:
    assert said(rejected()) == [(reason, field, message)]


@pytest.mark.parametrize(("is_reverse", "newest"), [(False, SEQUENTIAL), (True, DAILY)])
def test_only_dates_in_reverse_order_conflict_with_tasks_that_depend_on_the_previous_run(
    newest: Graph, *, is_reverse: bool
) -> None:
    assert said(retried(backfill(is_reverse=is_reverse, **FAILED), newest)) == []


LATER = "another one for more dates"


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (backfill(is_reverse=True), f"runs in reverse order: create {LATER}"),
        (backfill(logical_dates=(NOW,)), f"has a list of dates: create {LATER}"),
        (backfill(last=9), "ends at 2024-05-10 12:00:00Z already"),
        (backfill(stage=1, stages=("b",), scan_until=1), f"has begun its cascade: create {LATER}"),
        (
            backfill(state=BackfillState.CANCELLED, failed=1),
            f"is cancelled: it cannot be extended; retry it first, or create {LATER}",
        ),
        (
            backfill(state=BackfillState.CANCELLED, is_planned=True),
            f"is cancelled: it cannot be extended; create {LATER}",
        ),
        (
            backfill(stop_reason="1 of its dates failed, and it stops at 1", failed=1, max_failed_runs=1),
            f"stopped: 1 of its dates failed, and it stops at 1; retry it first, or create {LATER}",
        ),
    ],
)
def test_more_dates_are_rejected(view: BackfillView, reason: str) -> None:
    assert said(changed(view, end_date=NOW + 9 * DAY)) == [("not_possible", "end_date", f"backfill 1 {reason}")]


@pytest.mark.parametrize(
    ("rejected", "reason", "field", "message"),
    [
        pytest.param(
            lambda: changed(CANCELLING, changes={"priority": 1}),
            "not_possible",
            "",
            f"backfill 1 is cancelling: it cannot be changed; wait for its end, or {KILL}",
            id="it is being cancelled",
        ),
        pytest.param(
            lambda: changed(msgspec.structs.replace(CANCELLING, kills=True), changes={"priority": 1}),
            "not_possible",
            "",
            "backfill 1 is cancelling: it cannot be changed",
            id="it is being killed",
        ),
        pytest.param(
            lambda: changed(backfill(pool="old"), has_pool=False, changes={"pool": "new"}),
            "no_such_pool",
            "pool",
            "there is no pool 'new'; `tidegate pools set new SLOTS` makes it",
            id="no new pool",
        ),
        pytest.param(
            lambda: changed(backfill(pool="old"), has_pool=False, changes={"priority": 1}),
            "no_such_pool",
            "pool",
            "there is no pool 'old'; `tidegate pools set old SLOTS` makes it",
            id="its pool was deleted",
        ),
        pytest.param(
            lambda: changed(backfill(priority=2), changes={"priority": 1}, expected=limits_version(backfill(priority=3))),
            "stale",
            "",
            "backfill 1 was changed meanwhile; read it again, and repeat the change",
            id="other limits than the user saw",
        ),
        pytest.param(
            lambda: changed(backfill(last=1), changes={"priority": 1}, expected=limits_version(backfill())),
            "stale",
            "",
            "backfill 1 was changed meanwhile; read it again, and repeat the change",
            id="another end than the user saw",
        ),
        pytest.param(
            lambda: unactable(backfill(), BackfillActed(backfill_id=1, action=BackfillAction.RESUME), "resumed"),
            "not_possible",
            "",
            "backfill 1 is planned: it cannot be resumed",
            id="an action in another state",
        ),
    ],
)
def test_a_change_is_rejected(rejected: Callable[[], Found], reason: str, field: str, message: str) -> None:
    assert said(rejected()) == [(reason, field, message)]


def test_limits_that_the_user_saw_can_change() -> None:
    assert said(changed(backfill(), changes={"priority": 1}, expected=limits_version(backfill()))) == []


@pytest.mark.parametrize(
    ("of", "near"),
    [
        pytest.param(
            graph("t", timetable=Every(seconds=86400), start_date=NOW - timedelta(days=9, hours=3)),
            "2024-05-01 09:00:00Z before it and 2024-05-02 09:00:00Z after it",
            id="from the start date of the DAG",
        ),
        pytest.param(
            graph("t", timetable=Every(months=1)),
            "2024-04-26 12:00:00Z before it and 2024-05-26 12:00:00Z after it",
            id="months from the start of the backfill",
        ),
        pytest.param(
            graph("t", timetable=Every(seconds=86400)),
            "2024-05-01 00:00:00Z before it and 2024-05-02 00:00:00Z after it",
            id="days from the epoch",
        ),
    ],
)
def test_the_dates_of_an_interval_count_from_a_start(of: Graph, near: str) -> None:
    expected = f"2024-05-01 12:00:00Z is no date of DAG 'd': its timetable has {near}; list one of these dates"

    assert said(created(backfill(last=0, logical_dates=(NOW,)), of)) == [("no_dates", "logical_dates", expected)]
