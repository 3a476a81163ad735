"""Why a backfill does not go on, and what its dates wait for."""

from typing import Any

import pytest

from tests.shapes import NOW
from tests.unit.daemon.backfill_rows import row
from tidegate.daemon.read_model.backfill import share_text
from tidegate.daemon.read_model.backfill_reasons import waits_for, why, why_failing
from tidegate.schemas.explain.reasons import BackfillLimit, DagPaused, PoolFull, PoolMissing, Reason
from tidegate.schemas.queries.backfill_pages import DateRow, PoolShare, UnendedTask
from tidegate.schemas.queries.pools import UNLIMITED
from tidegate.schemas.state import BackfillState, DateState, TaskState

STOPPED: dict[str, Any] = {"stopped_by": "ben", "stopped_at": NOW}
CANCELLED: dict[str, Any] = {"was_cancelled": True, "stop_reason": "x", **STOPPED}
GO_ON = "; `tidegate backfills retry 1` lets it go on"
HELD: dict[str, Any] = {"dag_state": "held", "inactive_dag_id": "d"}
PAUSED: dict[str, Any] = {"state": BackfillState.PAUSED}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, ""),
        ({"running": 10}, "its limit of 10 active runs is reached"),
        ({"running": 10, "waiting": 9}, "its limit of 10 active runs is reached"),
        (
            {"running": 10, "waiting": 10},
            "all of its 10 running runs wait for earlier runs of the DAG; `tidegate backfills dates 1` says for which",
        ),
        ({**PAUSED, **STOPPED}, "paused by ben at 2024-05-01 12:00:00Z; `tidegate backfills resume 1` resumes it"),
        (PAUSED, "paused; `tidegate backfills resume 1` resumes it"),
        ({"state": "success"}, ""),
        ({"state": "failed", "failed": 2}, f"2 of its dates failed (`tidegate backfills dates 1 --state failed`){GO_ON}"),
        ({"state": "failed", "failed": 2, "stop_reason": "x"}, f"x{GO_ON}"),
        (
            {"state": "failed", "failed": 2, "stop_reason": "x", "newest_version": 3},
            f"x{GO_ON} with version 1; the newest is version 3, which --newest-version runs",
        ),
        ({"state": "cancelled", **CANCELLED}, f"cancelled by ben at 2024-05-01 12:00:00Z{GO_ON}"),
        ({"state": "cancelled", "deleted": True, **CANCELLED}, "cancelled by ben at 2024-05-01 12:00:00Z"),
        (CANCELLED, "cancelled by ben at 2024-05-01 12:00:00Z"),
        ({"running": 2, "waiting": 1, **CANCELLED}, "cancelled by ben at 2024-05-01 12:00:00Z"),
        ({"running": 2, "waiting": 2, **CANCELLED}, "cancelled by ben at 2024-05-01 12:00:00Z"),
        ({"stop_reason": "2 of its dates failed"}, "2 of its dates failed"),
        (
            {"dag_state": "paused", "inactive_dag_id": "sales", "stages": ("sales",), "stage": 1},
            "DAG sales is paused; `tidegate dags why-not sales` says what to do",
        ),
    ],
)
def test_a_backfill_says_why_it_does_not_go_on(facts: dict[str, Any], said: str) -> None:
    assert why(row(**facts)) == said


def date(
    state: str, run_state: str | None = None, task: str | None = None, *, waits_for_past: bool = False, **facts: Any
) -> DateRow:
    given = {"dag_id": "d", "run_id": "r", "ordinal": 1, "logical_date": NOW, "reason": "", **facts}
    unended = UnendedTask(task_id="t", state=TaskState(task), pool="p", waits_for_past=waits_for_past) if task else None
    return DateRow(state=DateState(state), run_state=run_state, task=unended, **given)


ASK = "; `tidegate tasks why-not d r t` says more"


@pytest.mark.parametrize(
    ("facts", "of", "said"),
    [
        ({}, date("success", "success"), ""),
        ({}, date("open", "queued"), "waits for the next visit of a daemon"),
        (PAUSED, date("open", "queued"), "paused; `tidegate backfills resume 1` resumes it"),
        ({}, date("open", "running", "running"), "task t runs"),
        ({}, date("open", "running", "queued"), "task t is queued"),
        ({}, date("open", "running", "scheduled"), f"task t waits for its turn in pool 'p'{ASK}"),
        ({}, date("open", "running", "up_for_retry"), f"task t waits for its next try{ASK}"),
        ({}, date("open", "running", "none", waits_for_past=True), f"task t waits for the previous run{ASK}"),
        ({}, date("open", "running", "none"), "task t waits for earlier tasks"),
        ({"running": 10}, date("open", "success"), "waits for the next visit of a daemon"),
        ({"running": 10}, date("retry", "failed"), "its limit of 10 active runs is reached"),
        ({}, date("retry", "running"), "runs again after its run has ended"),
        (HELD, date("open", "running", "scheduled"), "DAG d is held; `tidegate dags why-not d` says what to do"),
        (HELD, date("open", "running", "running"), "task t runs"),
        (
            HELD,
            date("open", "running", "scheduled", dag_id="e"),
            "task t waits for its turn in pool 'p'; `tidegate tasks why-not e r t` says more",
        ),
        ({"stages": ("e", "f")}, date("retry", "success", dag_id="f"), "runs again after the runs of daily"),
        ({"stages": ("e", "f"), "stage": 2}, date("retry", "success", dag_id="f"), "waits for the next visit of a daemon"),
    ],
)
def test_a_date_says_what_it_waits_for(facts: dict[str, Any], of: DateRow, said: str) -> None:
    assert waits_for(row(**facts), of) == said


def test_a_date_names_the_dag_that_does_not_start_its_run() -> None:
    of = date("open", "queued", dag_id="e")

    assert waits_for(row(running=10), of, (), "paused") == "DAG e is paused; `tidegate dags why-not e` says what to do"


@pytest.mark.parametrize(
    ("blockers", "said"),
    [
        ((DagPaused(),), "the DAG to be unpaused"),
        ((DagPaused(), PoolFull("p", 2, 0, 1)), "the DAG to be unpaused; pool 'p': 0 of its 2 slots are open, the task needs 1"),
        ((BackfillLimit(1, "max_active_tasks", 2),), "the rest of backfill 1: its max_active_tasks is 2"),
        ((PoolMissing("p"),), "pool 'p', which does not exist"),
    ],
)
def test_a_date_names_what_keeps_its_task_from_slots(blockers: tuple[Reason, ...], said: str) -> None:
    assert waits_for(row(), date("open", "running", "scheduled"), blockers) == f"task t waits for {said}{ASK}"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "2 of its 4 planned dates failed; `tidegate backfills retry 1` runs these again"),
        (
            PAUSED,
            "2 of its 4 planned dates failed; `tidegate backfills retry 1` runs these again; "
            "paused; `tidegate backfills resume 1` resumes it",
        ),
        (
            {"running": 2, "waiting": 2},
            "2 of its runs wait for earlier dates, of which 2 failed; `tidegate backfills retry 1` runs these again",
        ),
        ({"state": "failed"}, f"2 of its dates failed (`tidegate backfills dates 1 --state failed`){GO_ON}"),
        (CANCELLED, "2 of its 4 planned dates failed; cancelled by ben at 2024-05-01 12:00:00Z"),
        (
            {"dag_state": "paused", "inactive_dag_id": "failed_orders"},
            "2 of its 4 planned dates failed; `tidegate backfills retry 1` runs these again; "
            "DAG failed_orders is paused; `tidegate dags why-not failed_orders` says what to do",
        ),
    ],
)
def test_a_backfill_with_failed_dates_says_how_they_run_again(facts: dict[str, Any], said: str) -> None:
    assert why_failing(row(failed=2, dates=5, skipped=1, **facts)) == said


@pytest.mark.parametrize(
    ("held", "slots", "said"),
    [
        (1, None, "1 slot of p"),
        (2, None, "2 slots of p"),
        (1, UNLIMITED, "1 slot of p"),
        (1, 1, "1 of 1 slot of p"),
        (1, 128, "1 of 128 slots of p"),
    ],
)
def test_a_share_names_its_slots(held: int, slots: int | None, said: str) -> None:
    assert share_text(PoolShare("p", held, slots, 0)) == f"{said}; no other task waits there"
