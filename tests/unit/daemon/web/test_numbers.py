"""Numbers of pages, and the words after them."""

from typing import Any

import pytest

from tests.unit.daemon.backfill_rows import row
from tests.unit.daemon.read_model.test_now import page
from tidegate.daemon.read_model.backfill_progress import Progress
from tidegate.daemon.web.numbers import UNKNOWN, at_least, together
from tidegate.daemon.web.pages import now
from tidegate.daemon.web.pages.backfill import stats
from tidegate.daemon.web.pages.backfills import BackfillLine
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.now import Counts

NOTHING = Progress(dagruns=1, tasks=1, finished=0, succeeded=0, skipped=0, failed=0, is_exact=False)
HALF = Progress(
    dagruns=2_000, tasks=4_000, finished=2_000, succeeded=2_000, skipped=0, failed=0, left_s=90.0, again=3, unplanned=7
)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "waits"), (2, "and 1 more wait"), (3, "and 2 more wait"), (1_002, "and 1,001 more wait")]
)
def test_others_stand_beside_the_first(number: int, text: str) -> None:
    assert together(number, "waits", "wait") == text


@pytest.mark.parametrize(
    ("number", "is_exact", "text"),
    [(1, True, "1 run"), (0, True, "0 runs"), (2_000, True, "2,000 runs"), (1, False, "1+ runs"), (2_000, False, "2,000+ runs")],
)
def test_a_number_may_have_more(number: int, text: str, *, is_exact: bool) -> None:
    assert at_least(number, "run", "runs", is_exact=is_exact) == text


@pytest.mark.parametrize(
    ("given", "found", "rate", "shown"),
    [
        ({}, NOTHING, None, ["0%", "of 1+ tasks", "0", "of 1+ runs ended", UNKNOWN, UNKNOWN]),
        (
            {"succeeded": 900, "failed": 100, "stop_reason": "x"},
            *(HALF, 1_234.6),
            ["50%", "of 4,000 tasks", "1,000", "of 2,000 runs ended; 3 to run again; 7 not started", "1,235", "1m30s"],
        ),
        ({"succeeded": 1}, HALF, 0.2, ["50%", "of 4,000 tasks", "1", "of 2,000 runs ended; 3 to run again", "0", "1m30s"]),
    ],
)
def test_a_backfill_has_its_numbers(given: dict[str, Any], found: Progress, rate: float | None, shown: list[str]) -> None:
    tasks, runs, failed, _, pace, left = stats(row(**given), found, rate)

    assert [tasks.number, tasks.words, runs.number, runs.words, pace.number, left.number] == shown
    assert failed.is_bad == ("failed" in given)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "3 of 4 runs ended"),
        (NOTHING, "0% of tasks, 3 of 1+ runs"),
        (HALF, "50% of tasks, 3 of 2,000 runs"),
    ],
)
def test_a_line_says_how_far_a_backfill_is(found: Progress | None, text: str) -> None:
    assert BackfillLine(row(dates=5, skipped=1, succeeded=2, cancelled=1), found, None, "").text == text


@pytest.mark.parametrize(
    ("broken", "active", "waiting", "words"),
    [
        (0, 1, 0, ["1 needs attention", "1 task holds slots", "0 tasks wait for slots"]),
        (2, 2, 1, ["3 need attention", "2 tasks hold slots", "1 task waits for slots"]),
        (20, 0, COUNTED, ["21+ need attention", "0 tasks hold slots", "10,000+ tasks wait for slots"]),
    ],
)
def test_the_first_page_has_its_numbers(broken: int, active: int, waiting: int, words: list[str]) -> None:
    """That no daemon is alive needs attention, too."""
    shown = now.stats(page(broken, counts=Counts(active, waiting)))

    assert [f"{stat.number} {stat.words}" for stat in shown] == [*words, "0 daemons are alive", "0 DAGs are due within an hour"]
    assert [stat.is_bad for stat in shown] == [True, False, False, True, False]
