"""Schedules of several daemons, and that they would notice if one of the things were missing that they are there to prove.

Each part is a process of its own, in which sets have the same order each time: so a seed that fails here fails again with
`python -m tests.simulation --seed N`.
"""

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from random import Random

import pytest

from tests.simulation import jobs
from tests.simulation.faults import FAULTS
from tests.simulation.jobs import STEADY, noticed
from tests.simulation.play import CIRCLE
from tests.simulation.verdict import Verdict

LONG = bool(os.environ.get("TEST_LONG"))
SEED = int(os.environ.get("TEST_SEED") or Random().randrange(2**31))
SCHEDULES = 20_000 if LONG else 500

WITHIN = 800
"""So many schedules a fault survives at most: some ten times what the hardest takes on average."""


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.simulation", *options]
    return subprocess.run(command, env=STEADY, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.long
@pytest.mark.timeout(7200 if LONG else 300)
def test_nothing_is_lost_or_doubled(simulated: str) -> None:
    seconds = [] if LONG else ["--seconds", "10"]
    played = run("--base", str(SEED), "--schedules", str(SCHEDULES), *seconds, "--dsn", simulated)

    assert played.returncode == 0, played.stdout


def test_what_broke_once_holds(simulated: str) -> None:
    played = run("--kept", "--dsn", simulated)

    assert played.returncode == 0, played.stdout


def test_a_seed_is_one_schedule_after_any_other(simulated: str) -> None:
    first, again = (run("--seed", str(SEED), "--after", after, "--dsn", simulated).stdout for after in ("0", "9"))

    assert len(first.splitlines()) > 50
    assert first.splitlines() == again.splitlines()


GIVEN_AWAY_BY: Mapping[str, set[str]] = {
    "offset_not_compared": {"each_record_is_taken_once"},
    "queue_emptied_by_dag": {"each_event_has_one_fate_for_each_subscriber"},
    "outbox_deleted_before_ack": {"the_topics_tell_each_run", "everything_ends"},
    "submit_without_find": {"each_attempt_has_one_application"},
    "pool_rows_not_locked": {"no_limit_is_exceeded"},
    "slots_not_summed": {"no_limit_is_exceeded"},
    "epoch_not_compared": {"each_record_is_taken_once"},
    "offsets_moved_apart": {"each_event_is_in_the_ledger_once", "everything_ends"},
    "ids_not_remembered": {"each_event_is_in_the_ledger_once"},
    "end_of_batch_counted": {"each_record_is_taken_once"},
    "outlets_of_runs_not_told_apart": {"outlets_tell_each_success_once"},
    "first_move_of_a_row_told": {"the_topics_tell_each_run"},
    "success_told_as_failure": {"the_topics_tell_each_run"},
    "all_of_met_by_any": {"each_run_has_what_its_condition_needs"},
    "intents_not_locked": {"each_attempt_has_one_application"},
    "stale_daemon_submits": {"each_attempt_has_one_application"},
    "found_or_not_at_once": {"each_attempt_has_one_application"},
    "relay_not_fenced": {"the_last_record_of_a_run_is_its_newest"},
    "rows_of_lost_leases_passed_over": {"everything_ends"},
    "read_inside_the_group": {"no_daemon_ends_by_itself"},
    "renewed_after_leaving": {"stopped_daemons_leave_at_once", CIRCLE},
    "oneself_not_counted": {"no_daemon_ends_by_itself"},
    "end_not_shielded": {"stopped_daemons_leave_at_once"},
    "only_signals_heard": {"everything_ends", "nothing_waits_beside_an_open_gate"},
    "active_runs_of_backfills_not_counted": {"no_backfill_starts_more_than_it_may"},
    "backfills_end_with_their_planning": {"each_date_has_one_run_or_one_reason"},
    "cancels_of_backfills_fail": {"each_request_of_a_user_is_answered"},
}
"""One of these at least; what the others break depends on who comes first."""


SOON = (
    "queue_emptied_by_dag",
    "outbox_deleted_before_ack",
    "submit_without_find",
    "admissions_not_counted",
    "runs_not_counted",
    "offsets_moved_apart",
    "ids_not_remembered",
    "end_not_shielded",
    "only_signals_heard",
    "end_of_batch_counted",
    "all_of_met_by_any",
    "backfills_end_with_their_planning",
    "cancels_of_backfills_fail",
)
"""Some tens of schedules each, at most. The others take hundreds, and are tried by `make test-long`."""


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS if LONG else SOON)
def test_a_seeded_fault_is_noticed(fault: str, simulated: str) -> None:
    verdict = noticed_beside_deadlocks(fault, simulated)

    assert verdict.broken, f"{fault} was not noticed in {verdict.schedules} schedules from {SEED} on"
    assert GIVEN_AWAY_BY.get(fault, verdict.seen) & verdict.seen, verdict.sentences


def noticed_beside_deadlocks(fault: str, dsn: str) -> Verdict:
    """Up to the first schedule that breaks an invariant; a deadlock alone counts only where the fault is expected to cause one.

    A deadlock ends its schedule before the invariants at rest are checked.
    """
    seed, end = SEED, SEED + WITHIN
    while True:
        verdict = noticed(fault, dsn, seed, end - seed)
        if verdict.seen != {CIRCLE} or CIRCLE in GIVEN_AWAY_BY.get(fault, {CIRCLE}):
            return verdict
        seed += verdict.schedules


NOWHERE = "postgresql://127.0.0.1:1/nowhere"


def test_schedules_that_fail_by_themselves_have_noticed_nothing() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        noticed("only_signals_heard", NOWHERE, SEED, 1)


async def test_schedules_that_fail_by_themselves_are_not_those_that_find_something() -> None:
    chosen = Namespace(base=SEED, schedules=2, fault="", seconds=10.0, lines=5, first=False, json=True, group="")

    assert await jobs._judge(chosen, [NOWHERE]) == 2
