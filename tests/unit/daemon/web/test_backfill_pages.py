"""What the pages of backfills decide."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.shapes import A, graph
from tests.unit.daemon.backfill_rows import NOW, row
from tests.unit.handlers.backfills.test_dates import DAILY
from tidegate.daemon.read_model.backfill_progress import date_counts, progress
from tidegate.daemon.web.fields import Fields
from tidegate.daemon.web.pages.backfill import actions_of
from tidegate.daemon.web.pages.backfill_limits import DEFAULTS, changed_limits, limits_of, texts_of
from tidegate.daemon.web.pages.backfill_new import field_of, spec_of
from tidegate.schemas.backfill import MAX_LISTED_DATES
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import BackfillState


@pytest.mark.parametrize(
    ("given", "actions"),
    [
        ({}, ["pause", "change", "cancel"]),
        ({"state": "planned", "failed": 1}, ["pause", "retry", "change", "cancel"]),
        ({"state": "paused"}, ["resume", "change", "cancel"]),
        ({"state": "cancelling"}, ["cancel"]),
        ({"state": "cancelling", "kills": True}, []),
        ({"state": "failed", "failed": 1}, ["retry", "change", "delete"]),
        ({"state": "success"}, ["change", "delete"]),
        ({"state": "success", "deleted": True}, []),
    ],
)
def test_a_state_has_its_actions(given: dict[str, Any], actions: list[str]) -> None:
    assert actions_of(row(**given)) == actions


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (NotFoundError("there is no DAG 'reverse --date'"), ""),
        (RequestError("the conf does not fit", field="conf"), "conf"),
        (RequestError("list each date", field="logical_dates"), "dates"),
        (RequestError("has dates of the same time", field="start_date"), "start"),
    ],
)
def test_a_rejection_has_a_field(error: RequestError, field: str) -> None:
    assert field_of(error) == field


def test_a_list_of_dates_is_a_backfill() -> None:
    fields = Fields({"dag": "daily", "dates": "2013-01-05 2013-01-02", "outlets": "none", "is_reverse": "true"})

    spec = spec_of(fields)

    assert spec is not None
    assert (spec.start_date.day, spec.end_date.day, len(spec.logical_dates or ())) == (2, 5, 2)
    assert (spec.outlets, spec.is_reverse, spec.reprocess, spec.max_active_runs) == ("none", True, "none", None)


def test_too_many_dates_are_no_backfill() -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    dates = " ".join((start + timedelta(hours=hour)).isoformat() for hour in range(MAX_LISTED_DATES + 1))
    fields = Fields({"dag": "daily", "dates": dates})

    assert spec_of(fields) is None
    assert "at most 10000 dates" in fields.problems["dates"]


def test_limits_are_written_as_they_are_shown() -> None:
    limits = {**DEFAULTS, "share": 0.25, "pool": "few"}

    assert limits_of(Fields(texts_of(limits))) == limits
    assert texts_of(limits)["share"] == "25"


def test_only_changed_limits_change_and_an_empty_field_has_the_default() -> None:
    shown = texts_of({**DEFAULTS, "share": 0.25, "max_failed_runs": 3})

    changed = changed_limits(Fields({**shown, "share": "", "max_failed_runs": "", "pool": "few"}), shown)

    assert changed == {"share": None, "max_failed_runs": 0, "pool": "few"}


def test_an_existing_backfill_has_a_number_of_active_runs() -> None:
    shown = texts_of({**DEFAULTS, "max_active_runs": 3})
    fields = Fields({**shown, "max_active_runs": ""})

    changed_limits(fields, shown)

    assert fields.problems == {"max_active_runs": "write a whole number from 1 to 1000"}


BY_DATASETS = graph("a", schedule=A)


@pytest.mark.parametrize(
    ("given", "of", "left", "done", "is_exact"),
    [
        pytest.param({"dates": 0}, BY_DATASETS, 0, 0.0, False, id="a replay that is not planned"),
        pytest.param({"dates": 0, "is_planned": True}, BY_DATASETS, 0, 1.0, True, id="a replay without a run"),
        pytest.param({"dates": 3}, DAILY, 10, 0.0, True, id="dates to come"),
        pytest.param({"dates": 3, "stages": ("b",), "is_planned": True}, graph("a"), 0, 0.0, False, id="a cascade"),
        pytest.param(
            {"dates": 3, "stages": ("b",), "state": BackfillState.CANCELLED}, graph("a"), 0, 0.0, False, id="an ended cascade"
        ),
        pytest.param({"dates": 3, "is_planned": True, "state": "success"}, graph("a"), 0, 0.0, True, id="an ended one"),
        pytest.param({"dates": 3, "stop_reason": "x"}, DAILY, 2, 0.0, True, id="a stopped one"),
        pytest.param({"dates": 3, "stop_reason": "x"}, DAILY, 10_001, 0.0, False, id="one with too many dates to count"),
    ],
)
def test_the_total_is_exact_once_it_is_known(given: dict[str, Any], of: Graph, left: int, done: float, *, is_exact: bool) -> None:
    found = progress(row(**given), of, left, NOW)

    assert (found.done, found.is_exact) == (done, is_exact)


CANCELLED: dict[str, Any] = {"state": "cancelled", "was_cancelled": True, "stop_reason": "x", "tasks": 14, "tasks_succeeded": 14}
RUNNING: dict[str, Any] = {"dates": 3, "running": 2, "succeeded": 1, "tasks": 3}
RETRIED: dict[str, Any] = {"dates": 11, "succeeded": 10, "state": "paused", "is_planned": True}
STOPPED: dict[str, Any] = {"dates": 3, "skipped": 1, "failed": 2, "stop_reason": "x"}


@pytest.mark.parametrize(
    ("given", "left", "dagruns", "done", "counted"),
    [
        (
            {**CANCELLED, "dates": 21, "succeeded": 14, "cancelled": 7},
            *(10, 31, 14 / 24, {"succeeded": 14, "cancelled": 7, "not started": 10}),
        ),
        (RUNNING, 4, 7, 0.0, {"running": 2, "succeeded": 1, "to come": 4}),
        (RETRIED, 0, 11, 0.0, {"succeeded": 10, "to run again": 1}),
        (STOPPED, 1, 3, 0.0, {"skipped": 1, "failed": 2, "not started": 1}),
    ],
)
def test_each_date_is_in_one_number(given: dict[str, Any], left: int, dagruns: int, done: float, counted: dict[str, int]) -> None:
    of = row(**given)

    found = progress(of, graph("a"), left, NOW)

    counts = date_counts(of, found)
    assert (found.dagruns, found.done) == (dagruns, done)
    assert {state: dates for state, dates in counts.items() if dates} == counted
    assert sum(counts.values()) == of.dates + left


AT_WORK: dict[str, Any] = {"run_start_date": NOW - timedelta(hours=1), "dates": 4, "running": 2, "tasks": 8, "tasks_succeeded": 4}


@pytest.mark.parametrize(
    ("given", "left_s"),
    [
        ({}, 3600.0),
        ({"waiting": 1}, 3600.0),
        ({"waiting": 2}, None),
        ({"state": "paused"}, None),
        ({"stop_reason": "x"}, None),
        ({"dag_state": "paused"}, None),
        ({"tasks_succeeded": 0}, None),
        ({"run_start_date": None}, None),
    ],
)
def test_time_is_left_while_runs_are_at_work(given: dict[str, Any], left_s: float | None) -> None:
    of = row(**{**AT_WORK, "is_planned": True, "succeeded": 2, **given})

    assert progress(of, graph("a"), 0, NOW).left_s == left_s
