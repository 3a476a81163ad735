"""What `dags show` says about the options of a DAG."""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from tidegate.daemon.cli.pages.dag import print_page
from tidegate.daemon.read_model.dag import DagPage
from tidegate.daemon.read_model.inputs import InputRow
from tidegate.schemas.conditions.condition import DatasetRef, Timing
from tidegate.schemas.dag import DagSpec, DeadlineSpec
from tidegate.schemas.params import ParamSpec
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.timetable.spec import Every

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOT_SHOWN = {"dag_id", "callbacks", "datasets"}
"""The heading of the page has the id."""

SHOWN: dict[str, tuple[Any, str]] = {
    "description": ("of flights", "description    of flights"),
    "schedule": (DatasetRef("s://a"), "starts when"),
    "timing": (Timing(within_s=60.0), "counted all within 1m00s of each other"),
    "mode": ("each", "mode           each event makes a run of its own"),
    "together": (True, "a tick makes a run only if the condition holds"),
    "on_paused": ("keep", "while paused   events stay pending"),
    "timetable": (Every(seconds=7200.0), "timetable every 2 h"),
    "start_date": (NOON, "start date     2026-11-21 12:00:00Z"),
    "end_date": (NOON, "end date       2026-11-21 12:00:00Z"),
    "missed": ("skip", "catchup        off: missed runs are skipped"),
    "missed_per_minute": (6, "is started, at most 6 a minute"),
    "run_immediately": (False, "first run      of the next tick"),
    "max_active_runs": (7, "at most 7 at a time"),
    "max_active_tasks": (9, "tasks          of each run at most 9 at a time"),
    "run_timeout_s": (60.0, "run timeout    1m00s"),
    "max_failed_runs": (3, "paused after   3 failed runs in a row"),
    "fail_fast": (True, "fail fast      the first task that fails ends its run"),
    "allow_backfills": (False, "backfills      not allowed"),
    "params": ({"day": ParamSpec(default="x")}, 'day    "x"'),
    "paused": (True, "when new       paused"),
    "extra_params": (True, "extra params   the conf of a run may have keys that are no params"),
    "deadlines": (
        (DeadlineSpec(name="late", after_s=3600.0, since="queued_at"), DeadlineSpec(name="daily", at=time(9))),
        "deadlines      late 1h00m after queued_at, daily at 09:00 UTC",
    ),
    "tags": (("hourly",), "tags           hourly"),
    "tasks": ((), "no tasks"),
}
"""By field of a DAG, a value and what the page says then."""


def page(shown: DagSpec) -> DagPage:
    facts: dict[str, Any] = {**dict.fromkeys(DagRow.__struct_fields__), "dag_id": shown.dag_id, "running": 0, "queued": 0}
    return DagPage(
        dag=DagRow(**facts), spec=shown, pending=(), inputs=[InputRow("s://a", 0, None)], notes=(), next_runs=(), runs=()
    )


def test_the_table_has_each_option() -> None:
    assert SHOWN.keys() | NOT_SHOWN == set(DagSpec.__struct_fields__)


@pytest.mark.parametrize("field", SHOWN)
def test_each_option_is_shown(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, words = SHOWN[field]
    condition, timetable = DatasetRef("s://a"), Every(seconds=60.0)

    print_page(page(DagSpec(**{"dag_id": "d", "schedule": condition, "timetable": timetable, field: value})), NOON)

    assert " ".join(words.split()) in " ".join(capsys.readouterr().out.split())
