"""What the commands that change a backfill answer."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import A, graph
from tests.unit.daemon.backfill_rows import NOW, row
from tidegate.daemon.cli.pages.backfill_changes import cancelled, changed, paused, resumed, retried
from tidegate.daemon.read_model.backfill_effects import ChangedBackfill, added, effects
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillAction
from tidegate.schemas.timetable.spec import Cron

TWO = {"running": 2, "queued": 1}


def test_the_answer_counts_the_runs_that_go_on() -> None:
    assert paused(row(**TWO)) == (
        "paused backfill 1. It starts no more runs. 2 running runs go on, 1 queued one waits until it is resumed."
    )
    assert resumed(row(**TWO)) == "resumed backfill 1. Its runs start again, at most 10 at once; 1 queued run first."
    assert "1 running run goes on to its end," in cancelled(row(**TWO, waiting=1), kills=False)
    assert "its queued runs fail, 2 running runs go on to their end," in cancelled(row(**TWO), kills=False).lower()
    assert "2 running runs are ended" in cancelled(row(**TWO), kills=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "retries backfill 1 with version 1 of daily."),
        (
            {"newest_version": 3},
            "retries backfill 1 with version 1 of daily; the newest is version 3 (--newest-version).",
        ),
        (
            {"state": "paused"},
            "retries backfill 1 with version 1 of daily. It stays paused: `tidegate backfills resume 1` resumes it.",
        ),
        (
            {"version": 2},
            "retries backfill 1 with version 2 of daily; the newest is version 1.",
        ),
    ],
)
def test_a_retry_says_its_version_and_that_it_stays_paused(given: dict[str, Any], said: str) -> None:
    assert retried(row(**given)) == said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"failed": 1}, ["1 failed date runs again: the failed tasks, and the tasks after these."]),
        ({"failed": 2, "cancelled": 1}, ["2 failed dates run again", "1 cancelled date runs again with all tasks."]),
        ({"stop_reason": "x"}, ["Then it plans the dates"]),
        ({"state": "paused"}, ["It stays paused: no run starts until it is resumed."]),
        ({"newest_version": 2}, ["The runs have version 1 of daily; the newest is version 2."]),
    ],
)
def test_the_form_of_a_retry_says_the_same(given: dict[str, Any], says: list[str]) -> None:
    text = " ".join(effects(BackfillAction.RETRY, row(**given)))

    assert all(said in text for said in says)


@pytest.mark.parametrize(
    ("given", "limits", "said"),
    [
        (
            {},
            {"share": 0.5, "pool": None},
            "changed backfill 1: share is 50%, pool is none. It is running: 0 running runs go on, 0 queued ones wait.",
        ),
        ({"state": "success"}, {"priority": 0}, "changed backfill 1: priority is 0. It has ended as success."),
    ],
)
def test_a_change_says_what_changed(given: dict[str, Any], limits: dict[str, Any], said: str) -> None:
    assert changed(_changed(**given), limits, extends=False) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"added_dates": 1}, "It has 1 date more, up to 2026-11-21 12:00:00Z, with version 1 of daily."),
        (
            {"added_dates": None, "newest_version": 2},
            "It has dates more, up to 2026-11-21 12:00:00Z, with version 1 of daily; the",
        ),
        (
            {"added_dates": 0, "end_date": NOW + timedelta(days=1)},
            "Dates that are not due by 2026-11-21 12:00:00Z get no run;",
        ),
    ],
)
def test_an_extension_says_how_many_dates_it_adds(given: dict[str, Any], said: str) -> None:
    assert said in changed(_changed(**given), {}, extends=True)


def _changed(**given: Any) -> ChangedBackfill:
    added_dates = given.pop("added_dates", 0)
    return ChangedBackfill(**msgspec.structs.asdict(row(**given)), added_dates=added_dates)


DAILY = graph("a", timetable=Cron(("0 12 * * *",)))


@pytest.mark.parametrize(
    ("of", "days", "number"),
    [
        pytest.param(DAILY, 3, 3, id="days"),
        pytest.param(DAILY, 0, 0, id="no day"),
        pytest.param(DAILY, 20_000, None, id="too many to count"),
        pytest.param(graph("a", schedule=A), 3, None, id="runs by datasets"),
    ],
)
def test_the_dates_that_a_later_end_adds_are_counted(of: Graph, days: int, number: int | None) -> None:
    before = row(end_date=NOW + timedelta(days=1), horizon=NOW + timedelta(days=40_000))
    after = msgspec.structs.replace(before, end_date=before.end_date + timedelta(days=days))

    assert added(before, after, of) == number
