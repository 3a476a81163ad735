"""The storm; and that it would notice if one of the things were missing that it is there to prove."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.faults import FAULTS
from tests.storms.invariants import attempts, events, runs, secrets, topics
from tests.storms.plans import AIMED, STORM
from tests.storms.seeded import STORMS
from tests.storms.storm import Plan, Storm, seed

GIVEN_AWAY_BY: Mapping[str, set[str]] = {
    "offset_not_compared": {events.each_record_is_taken_once.__name__},
    "queue_rows_not_locked": {runs.active_runs_stay_in_their_limit.__name__},
    "queue_emptied_by_dag": {events.each_event_has_one_fate_for_each_subscriber.__name__},
    "outbox_deleted_before_ack": {
        topics.the_topic_tells_each_run.__name__,
        topics.the_topic_tells_each_task.__name__,
    },
    "submit_without_find": {attempts.each_attempt_has_one_application.__name__},
    "extras_reversed": {events.each_event_says_what_its_producer_said.__name__},
    "arrival_taken_for_occurrence": {events.each_event_says_what_its_producer_said.__name__},
    "sources_not_told_apart": {events.each_event_is_in_the_ledger_once.__name__},
    "extras_not_given": {events.each_task_is_given_what_its_run_consumed.__name__},
    "letters_deleted_before_sent": {events.the_dead_letter_topic_has_each_letter.__name__},
    "first_state_repeated": {topics.the_last_record_of_each_run_is_its_newest.__name__},
    "settings_told": {secrets.no_secret_is_told.__name__},
}

SOME = ("queue_rows_not_locked",)
"""A lock. `make test` notices most others by simulation; storms try all in `make test-long`."""


async def ride_out(plan: Plan, home: Path, cache: Path) -> tuple[Verdict, str]:
    """The verdict and the report."""
    home.mkdir()
    storm = Storm(plan, home, cache, seed())
    verdict = await storm.run()
    return verdict, storm.report(verdict)


async def test_nothing_is_lost_or_doubled(tmp_path: Path, cache: Path) -> None:
    """What is rare and was not reached may be in a second storm."""
    missed: set[str] | None = None
    for number in range(2):
        verdict, report = await ride_out(STORM, tmp_path / str(number), cache)
        assert verdict.broken == set(), report
        missed = verdict.missed if missed is None else missed & verdict.missed
        if not missed:
            break

    assert missed == set(), report


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS if os.environ.get("TEST_LONG") else SOME)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    """Within three storms: it takes chance to bring it about."""
    for number in range(STORMS):
        verdict, report = await ride_out(replace(AIMED[fault], fault=fault), tmp_path / str(number), cache)
        assert attempts.daemons_end_only_when_told.__name__ not in verdict.broken, report
        if verdict.broken >= GIVEN_AWAY_BY[fault]:
            return

    raise AssertionError(report)
