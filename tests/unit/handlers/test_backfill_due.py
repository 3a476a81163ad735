"""Which backfills are decided about when they are due, and what their step may start."""

from typing import Any

import pytest

from tests.shapes import NOW, graph, run_view
from tests.unit.handlers.backfills.test_dates import DAY, backfill
from tests.unit.handlers.backfills.test_step import planned
from tidegate.handlers.backfill_due import Starts, State, decide, due_of, has_dates, is_decidable, of_dag, plans_runs
from tidegate.handlers.backfills.dates import EMPTY_PLAN, Plan
from tidegate.handlers.backfills.step import DueBackfill, take_step
from tidegate.schemas.backfill import BackfillView, EndedDate, ExistingRun, Retry, TaskCounts
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.queries.dags import UnreadDag
from tidegate.schemas.state import BackfillState, DateState, RunState

CASCADE = backfill(stages=("e", "f"), stage=1, dates=1, scan_until=1)


def unread(**facts: bool) -> UnreadDag:
    return UnreadDag(1, **{"is_inactive": False, "is_stale": False, "is_held": False, **facts})


GOOD, PAUSED, HELD = unread(), unread(is_inactive=True), unread(is_held=True)


@pytest.mark.parametrize(
    ("state", "dag", "decidable"),
    [
        ("running", GOOD, True),
        ("cancelling", GOOD, True),
        ("success", GOOD, False),
        ("running", HELD, False),
        ("cancelling", HELD, True),
        ("cancelled", HELD, False),
        ("running", None, True),
    ],
)
def test_a_backfill_of_a_held_dag_is_decided_about_only_to_be_cancelled(
    state: str, dag: UnreadDag | None, *, decidable: bool
) -> None:
    locked = {"other": HELD, **({"d": dag} if dag else {})}

    assert is_decidable(backfill(state=BackfillState(state)), locked) is decidable


@pytest.mark.parametrize(
    ("view", "locked", "found"),
    [
        pytest.param(CASCADE, {"d": GOOD, "e": GOOD, "f": GOOD}, {}, id="all is well"),
        pytest.param(CASCADE, {"d": PAUSED, "e": GOOD, "f": GOOD}, {"is_inactive": True}, id="its DAG is paused"),
        pytest.param(CASCADE, {"d": GOOD, "e": PAUSED, "f": GOOD}, {"is_inactive": True}, id="the DAG of its stage is paused"),
        pytest.param(CASCADE, {"d": GOOD, "e": GOOD, "f": PAUSED}, {}, id="the DAG of a later stage is paused"),
        pytest.param(CASCADE, {"d": GOOD, "f": GOOD}, {"is_gone": True}, id="the DAG of its stage was deleted"),
        pytest.param(CASCADE, {"d": HELD, "e": HELD, "f": GOOD}, {"held": {"e"}}, id="the DAG of its stage is held"),
        pytest.param(CASCADE, {"d": GOOD, "e": HELD, "f": HELD}, {"held": {"e", "f"}}, id="those of two stages are held"),
        pytest.param(backfill(), {"d": GOOD}, {}, id="no cascade"),
    ],
)
def test_a_step_knows_the_dags_of_its_backfill(view: BackfillView, locked: dict[str, UnreadDag], found: dict[str, Any]) -> None:
    ended = (EndedDate(1, DateState.SUCCESS, TaskCounts(1, 1)),)

    assert due_of(view, locked, ended) == DueBackfill(backfill=view, ended=ended, **found)


@pytest.mark.parametrize(
    ("view", "facts", "plans"),
    [
        pytest.param(backfill(), {}, True, id="it starts runs"),
        pytest.param(backfill(), {"is_inactive": True}, False, id="its DAG is paused"),
        pytest.param(CASCADE, {"is_inactive": True}, True, id="a paused DAG may have no consumers"),
        pytest.param(CASCADE, {"held": {"e"}}, False, id="the DAG of its stage is held"),
        pytest.param(CASCADE, {"held": {"e"}, "is_inactive": True}, False, id="the DAG of its stage is held and paused"),
        pytest.param(CASCADE, {"held": {"f"}}, True, id="the DAG of a later stage is held"),
        pytest.param(backfill(state=BackfillState.PAUSED), {}, False, id="it is paused"),
    ],
)
def test_a_step_that_may_start_runs_reads_what_comes_next(view: BackfillView, facts: dict[str, Any], *, plans: bool) -> None:
    assert plans_runs(DueBackfill(backfill=view, **facts)) is plans


@pytest.mark.parametrize(
    ("view", "facts", "dated"),
    [
        (backfill(), {}, True),
        (backfill(), {"is_replay": True}, False),
        (backfill(), {"is_inactive": True}, False),
        (CASCADE, {}, False),
        (CASCADE, {"is_replay": True}, False),
    ],
    ids=["dates", "a replay", "a paused DAG", "a stage", "a stage of a replay"],
)
def test_dates_come_from_a_timetable_before_the_first_stage(view: BackfillView, facts: dict[str, Any], *, dated: bool) -> None:
    assert has_dates(DueBackfill(backfill=view, **facts)) is dated


def test_dates_of_other_dags_have_other_runs() -> None:
    run, other = ExistingRun(1, "r", RunState.SUCCESS), ExistingRun(2, "s", RunState.SUCCESS)

    assert of_dag({("d", NOW): run, ("e", NOW): other, ("d", NOW - DAY): other}, "d") == {NOW: run, NOW - DAY: other}


RETRIES = {number: Retry(10 + number, is_whole=True, logical_date=NOW) for number in (1, 2)}
DATES = Plan(planned(backfill(), None))


@pytest.mark.parametrize(
    ("runs", "retries", "plan", "is_limited", "first", "leaves"),
    [
        pytest.param(1, RETRIES, DATES, False, {11, 12}, False, id="all start"),
        pytest.param(0, RETRIES, EMPTY_PLAN, False, {12}, True, id="one run has too many tasks for this step"),
        pytest.param(1, {}, EMPTY_PLAN, True, set(), True, id="a full step of queued runs"),
        pytest.param(0, RETRIES, EMPTY_PLAN, True, {11, 12}, True, id="a full step of retries"),
        pytest.param(0, {}, DATES, True, set(), True, id="a full step of dates"),
        pytest.param(0, {}, EMPTY_PLAN, True, set(), False, id="nothing starts"),
    ],
)
def test_a_step_that_cannot_start_all_leaves_the_rest_to_the_next(
    runs: int, retries: dict[int, Retry], plan: Plan, *, is_limited: bool, first: set[int], leaves: bool
) -> None:
    starts = Starts([run_view()] * runs, retries, free=1, is_limited=is_limited).cut(first)

    assert starts.again == [retry.dag_run_id for retry in retries.values() if retry.dag_run_id in first]
    assert starts.leaves_runs(plan) is leaves


def test_each_backfill_takes_a_step_and_a_fault_names_its_dag() -> None:
    good = DueBackfill(backfill=backfill(), graph=graph("t"))
    bad = DueBackfill(backfill=backfill(dag_id="e", stop_reason="enough"), ending={7: 1})  # of a run that was not read

    assert list(decide([], State(NOW, (good,)))) == list(take_step(good, NOW))
    with pytest.raises(DagFaultError) as raised:
        list(decide([], State(NOW, (bad, good))))

    assert set(raised.value.reasons) == {"e"}
