"""How far a backfill is; the dates that it has left are counted once, not for each page and each second of a watcher."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import A, graph
from tests.unit.daemon.backfill_rows import NOW, row
from tests.unit.handlers.backfills.test_dates import DAILY
from tidegate.daemon.read_model import backfill_progress
from tidegate.daemon.read_model.backfill_progress import date_counts, progress
from tidegate.handlers.backfills.dates import next_ticks
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.state import BackfillState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.timetable.tick import Tick


def after(dates: int, *, is_reverse: bool = False) -> BackfillRow:
    """A backfill of ten days, of which `dates` are planned."""
    start = NOW - timedelta(days=9)
    last = NOW - timedelta(days=dates - 1) if is_reverse else start + timedelta(days=dates - 1)
    return row(start_date=start, dates=dates, planned_until=last if dates else None, is_reverse=is_reverse)


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize(
    ("most", "planned", "left", "counts"),
    [
        (100, (0, 0, 0), (10, 10, 10), 1),
        (100, (0, 3, 3, 10), (10, 7, 7, 0), 1),
        (100, (5, 4), (5, 6), 2),
        (6, (0, 0, 1, 3, 4, 5, 5), (7, 7, 7, 7, 6, 5, 5), 4),
    ],
)
def test_dates_are_counted_once(
    most: int, planned: Sequence[int], left: Sequence[int], counts: int, *, is_reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def counting(backfill: BackfillView, version: Graph, most: int) -> Sequence[Tick]:
        counted.append(most)
        return next_ticks(backfill, version, most)

    monkeypatch.setattr(backfill_progress, "next_ticks", counting)
    monkeypatch.setattr(backfill_progress, "MOST_COUNTED", most)
    daily = graph("t", timetable=Cron(("0 12 * * *",)))

    assert [backfill_progress.dates_left(after(dates, is_reverse=is_reverse), daily) for dates in planned] == list(left)
    assert len(counted) == counts


def test_each_backfill_of_a_version_has_dates_of_its_own() -> None:
    daily = graph("t", timetable=Cron(("0 12 * * *",)))
    rows = [row(id=days, start_date=NOW - timedelta(days=days)) for days in (1, 2)]

    assert [backfill_progress.dates_left(found, daily) for found in rows] == [2, 3]


@pytest.mark.parametrize(
    ("given", "pace", "rate"),
    [
        ({}, None, None),
        ({"run_start_date": NOW - timedelta(hours=2)}, None, None),
        ({"run_start_date": NOW - timedelta(hours=2), "succeeded": 5, "failed": 2, "cancelled": 1}, None, 4.0),
        ({"run_start_date": NOW - timedelta(hours=2), "succeeded": 5}, 7.0, 7.0),
        ({"run_start_date": NOW - timedelta(hours=2), "run_end_date": NOW - timedelta(hours=1), "succeeded": 8}, None, 8.0),
    ],
)
def test_the_rate_counts_ended_dates(given: dict[str, Any], pace: float | None, rate: float | None) -> None:
    of = row(**given)
    found = msgspec.structs.replace(backfill_progress.progress(of, graph("a"), 0, NOW), per_hour=pace)

    assert backfill_progress.per_hour(of, NOW, found) == rate


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
