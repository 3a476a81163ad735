"""What the page of a backfill says was asked for."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.daemon.backfill_rows import NOW, row
from tidegate.daemon.web.fact import Fact
from tidegate.daemon.web.pages.backfill_facts import CONSUMERS, EXISTING, asked_for, limits
from tidegate.daemon.web.pages.backfills import BackfillLine
from tidegate.schemas.backfill import Outlets, Reprocess

LATER = NOW + timedelta(days=1)
RANGE = "2026-11-21 12:00:00Z to 2026-11-22 12:00:00Z"


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"end_date": LATER}, [Fact("dates", f"{RANGE}, oldest first"), Fact("started", "not yet")]),
        ({"logical_dates": (NOW, LATER), "is_reverse": True}, [Fact("dates", "a list of 2, newest first")]),
        ({"dag_params": {"n": 1}}, [Fact("conf", '{"n":1}')]),
        ({"reprocess": "failed"}, [Fact("existing runs", "run again if they failed")]),
        ({"outlets": "none"}, [Fact("consumers get", "nothing")]),
        (
            {"run_start_date": NOW, "run_end_date": LATER},
            [Fact("started", at=NOW), Fact("ended", "after 1d00h", at=LATER)],
        ),
        ({"run_end_date": LATER}, [Fact("started", "not yet"), Fact("ended", at=LATER)]),
    ],
)
def test_a_backfill_says_what_was_asked_for(given: dict[str, Any], facts: list[Fact]) -> None:
    found = asked_for(row(**given), LATER)

    assert [fact for fact in found if fact.name in {fact.name for fact in facts}] == facts


def test_a_backfill_names_its_version_and_its_user() -> None:
    found = asked_for(row(), NOW)

    assert Fact("version", "1 of daily.py", "/dags/daily/versions/1") in found
    assert Fact("created", "by anna", at=NOW) in found
    assert {"conf", "ended"}.isdisjoint(fact.name for fact in found)


def test_each_choice_has_words() -> None:
    assert (set(EXISTING), set(CONSUMERS)) == (set(Reprocess), set(Outlets))


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (
            {"max_active_runs": 3},
            ["3", "no limit", "no limit", "those of its tasks", "-1000000", "no number of failures"],
        ),
        (
            {"max_active_runs": 3, "max_active_tasks": 7, "share": 0.125, "pool": "few", "priority": 0, "max_failed_runs": 1},
            ["3", "7", "12.5%", "few", "0", "1 failed date"],
        ),
    ],
)
def test_a_backfill_says_its_limits(given: dict[str, Any], texts: list[str]) -> None:
    assert [fact.text for fact in limits(row(**given))] == texts


def test_a_line_has_the_days_of_a_backfill() -> None:
    assert BackfillLine(row(end_date=LATER), None, None, "").dates == "2026-11-21 to 2026-11-22"
