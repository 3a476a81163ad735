"""The dates that a backfill has left are counted once, not for each page and each second of a watcher."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import graph
from tests.unit.daemon.backfill_rows import NOW, row
from tidegate.daemon.read_model import backfill_progress
from tidegate.handlers.backfills.dates import next_ticks
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.graph import Graph
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.timetable.tick import Tick


def after(dates: int, *, is_reverse: bool = False) -> BackfillRow:
    """A backfill of ten days, of which so many are planned."""
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
