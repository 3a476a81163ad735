"""Schedules of several daemons, and that they would notice if one of the things were missing that they are there to prove.

Each part is a process of its own, in which sets have the same order each time: so a seed that fails here fails again with
`python -m tests.simulation --seed N`.
"""

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from tests.simulation import jobs
from tests.simulation.__main__ import Interrupt
from tests.simulation.clock import INSTALLATION, SimulatedDatabase
from tests.simulation.faults import FAULTS
from tests.simulation.invariants import AT_COMMIT, AT_REST
from tests.simulation.jobs import STEADY, noticed
from tests.simulation.verdict import Verdict
from tidegate.schemas.queries.memory import Memory

LONG = bool(os.environ.get("TEST_LONG"))
SEED = int(os.environ.get("TEST_SEED") or Random().randrange(2**31))
SCHEDULES = 20_000 if LONG else 500

WITHIN = 800
"""The most schedules that a fault survives: some ten times what the hardest takes on average."""

RARE = {"staleness_asked_before_events_are_read": 3000}
"""The faults that take more than the others, and the most schedules that they survive: ten times what they take on average."""


def run(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.simulation", *options]
    return subprocess.run(command, env=STEADY, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.long
@pytest.mark.timeout(7200 if LONG else 900)
def test_nothing_is_lost_or_doubled(simulated: str) -> None:
    seconds = [] if LONG else ["--seconds", "6"]
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
    "queue_rows_not_locked": {"no_limit_is_exceeded", "nothing_waits_beside_an_open_gate"},
    "queue_emptied_by_dag": {"each_event_has_one_fate_for_each_subscriber"},
    "outbox_deleted_before_ack": {"the_topic_tells_each_run", "the_topic_tells_each_task", "everything_has_ended"},
    "submit_without_find": {"each_attempt_has_one_application"},
    "pool_rows_not_locked": {"no_limit_is_exceeded"},
    "slots_not_summed": {"no_limit_is_exceeded"},
    "installation_not_locked": {"no_limit_is_exceeded"},
    "admissions_not_counted": {"the_rules_of_the_model_hold"},
    "instances_not_counted": {"no_limit_is_exceeded"},
    "runs_not_counted": {"no_limit_is_exceeded"},
    "epoch_not_compared": {"each_record_is_taken_once"},
    "offsets_moved_apart": {"each_event_is_in_the_ledger_once", "everything_has_ended"},
    "ids_not_remembered": {"each_event_is_in_the_ledger_once"},
    "end_of_batch_counted": {"each_record_is_taken_once"},
    "outlets_of_runs_not_told_apart": {"outlets_tell_each_success_once"},
    "first_move_of_a_row_told": {"the_topic_tells_each_run", "the_topic_tells_each_task"},
    "success_told_as_failure": {"the_topic_tells_each_run"},
    "copies_known_by_partition": {"each_event_is_in_the_ledger_once"},
    "outlet_extras_not_told": {"each_outlet_says_what_its_attempt_said"},
    "others_superseded": {"each_event_has_one_fate_for_each_subscriber"},
    "kills_told_before_they_are_done": {"what_has_ended_does_not_run_on"},
    "kills_forgotten": {"everything_has_ended"},
    "all_of_met_by_any": {"each_run_has_what_its_condition_needs"},
    "runs_not_locked": {"the_rules_of_the_model_hold", "the_topic_tells_each_run", "the_topic_tells_each_task"},
    "intents_not_locked": {"each_attempt_has_one_application"},
    "stale_daemon_submits": {"each_attempt_has_one_application"},
    "staleness_asked_before_events_are_read": {"each_attempt_has_one_application"},
    "found_or_not_at_once": {"each_attempt_has_one_application"},
    "outbox_read_by_cursor": {"everything_has_ended", "the_topic_tells_each_run", "the_topic_tells_each_task"},
    "relay_not_fenced": {"the_last_record_of_each_run_is_its_newest"},
    "rows_of_lost_leases_passed_over": {"everything_has_ended"},
    "read_inside_the_group": {"no_daemon_ends_by_itself"},
    "renewed_after_leaving": {"stopped_daemons_leave_at_once"},
    "end_not_shielded": {"stopped_daemons_leave_at_once"},
    "only_signals_heard": {"everything_has_ended", "nothing_waits_beside_an_open_gate"},
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
    "others_superseded",
    "outlet_extras_not_told",
    "backfills_end_with_their_planning",
    "cancels_of_backfills_fail",
)
"""Some tens of schedules each, at most. The others take hundreds, and are tried by `make test-long`."""


TOO_RARE = {"rows_of_lost_leases_passed_over"}
"""It survived 1,400 schedules. `unit/daemon/postgres/test_low_watermark.py` notices it."""


@pytest.mark.long
@pytest.mark.timeout(3600 if LONG else 900)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in TOO_RARE] if LONG else SOON)
def test_a_seeded_fault_is_noticed(fault: str, simulated: str) -> None:
    verdict = noticed_as_aimed(fault, simulated)

    assert verdict.broken, f"{fault} was not noticed in {verdict.schedules} schedules from {SEED} on"
    assert is_aimed_at(fault, verdict), verdict.sentences


def test_invariants_are_aimed_at_each_seeded_fault() -> None:
    invariants = {check.__name__ for check in (*AT_COMMIT, *AT_REST)}

    assert GIVEN_AWAY_BY.keys() == FAULTS.keys()
    assert [fault for fault, expected in GIVEN_AWAY_BY.items() if not expected <= invariants] == []


def test_the_pages_know_every_seeded_fault() -> None:
    results, page = (Path(__file__).parents[1].joinpath(name).read_text() for name in ("storms/RESULTS.md", "README.md"))

    assert [fault for fault in FAULTS if f"`{fault}`" not in results] == []
    assert f"| {len(SOON)} that tens of schedules show | all but one of {len(FAULTS)} |" in page


def noticed_as_aimed(fault: str, dsn: str) -> Verdict:
    """Up to the first schedule that breaks an invariant which the fault is expected to break, whatever it breaks before."""
    seed, end = SEED, SEED + RARE.get(fault, WITHIN)
    while True:
        verdict = noticed(fault, dsn, seed, end - seed)
        if not verdict.seen or is_aimed_at(fault, verdict):
            return verdict
        seed += verdict.schedules


def is_aimed_at(fault: str, verdict: Verdict) -> bool:
    """Whatever else it breaks. A deadlock ends its schedule before the invariants at rest are checked."""
    return bool(GIVEN_AWAY_BY[fault] & verdict.seen)


def test_a_daemon_that_lost_its_server_makes_the_ids_of_attempts_as_before() -> None:
    """Else a seed would be another schedule on another server."""
    nothing: Any = None
    database = SimulatedDatabase(nothing, nothing, Memory(), None, "daemon-1")

    database.clear_memory()

    assert database.memory.installation == INSTALLATION


NOWHERE = "postgresql://127.0.0.1:1/nowhere"


def test_schedules_that_fail_by_themselves_have_noticed_nothing() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        noticed("only_signals_heard", NOWHERE, SEED, 1)


async def test_schedules_that_fail_by_themselves_are_not_those_that_find_something() -> None:
    chosen = Namespace(base=SEED, schedules=2, fault="", seconds=10.0, lines=5, first=False, json=True, group="")

    assert await jobs._judge(chosen, [NOWHERE]) == 2


@pytest.mark.parametrize(
    ("code", "broken", "interrupted", "failed"),
    [
        (0, False, False, False),
        (0, False, True, False),
        (1, True, False, False),
        (1, True, True, False),
        (1, False, False, True),
        (1, False, True, True),
        (2, True, False, True),
        (130, False, True, False),
        (130, False, False, True),
        (-signal.SIGINT, False, True, False),
        (-signal.SIGKILL, False, True, True),
    ],
)
def test_a_process_fails_by_itself_where_nothing_explains_its_end(
    *, code: int, broken: bool, interrupted: bool, failed: bool
) -> None:
    assert jobs.has_failed(code, broken=broken, interrupted=interrupted) is failed


def test_a_second_ctrl_c_ends_a_process() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        interrupt = Interrupt()
        signal.raise_signal(signal.SIGINT)
        assert (interrupt.came, signal.getsignal(signal.SIGINT)) == (True, signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGINT, before)


TELLS = "print('{\"schedules\": 1}', flush=True)"
HANGS = f"import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); {TELLS}; time.sleep(600)"
BLOCK = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"
FAILS = f"{BLOCK}; {TELLS}; signal.sigwait([signal.SIGINT]); raise KeyError"


async def interrupted(monkeypatch: pytest.MonkeyPatch, program: str, times: int) -> jobs.Run:
    """A run of one process that is a program, after a number of interrupts."""
    monkeypatch.setattr(jobs, "_command", lambda *_: [sys.executable, "-S", "-c", program])
    chosen = Namespace(base=SEED, schedules=9, fault="", seconds=60.0, lines=5, first=False, json=False, group="")
    run = jobs.Run(chosen)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tg:
            tg.start_soon(run.play, [NOWHERE])
            while not run.verdict.schedules:
                await anyio.sleep(0.01)
            for _ in range(times):
                run.interrupt()
    return run


async def test_a_second_interrupt_ends_a_process_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await interrupted(monkeypatch, HANGS, 2)

    assert run.end() == jobs.INTERRUPTED
    assert "interrupted after 1 of 9 schedules" in capsys.readouterr().out


async def test_an_interrupt_hides_no_process_that_failed_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await interrupted(monkeypatch, FAILS, 1)

    assert run.end() == 2
    assert "processes that failed by themselves: 1" in capsys.readouterr().out


async def test_an_interrupted_run_tells_what_it_has_played(simulated: str, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = Namespace(base=SEED, schedules=10**6, fault="", seconds=60.0, lines=5, first=False, json=False, group="")
    run = jobs.Run(chosen)
    async with anyio.create_task_group() as tg:
        tg.start_soon(run.play, [simulated])
        while not run.verdict.schedules:
            await anyio.sleep(0.05)
        run.interrupt()

    assert run.end() == jobs.INTERRUPTED
    told = capsys.readouterr().out
    assert f"interrupted after {run.verdict.schedules} of 1000000 schedules" in told
    assert "holds    everything has ended" in told
