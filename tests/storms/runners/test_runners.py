"""The storm over real runners; and that it would notice if two executions of a task were not kept apart."""

import os
from pathlib import Path

import pytest

from tests.storms.kinds import ride_out_unbroken
from tests.storms.runners.faults import RUNNER_FAULTS
from tests.storms.runners.plans import FROZEN_RUNNERS, RUNNERS, SUITE
from tests.storms.seeded import notice

LONG = bool(os.environ.get("TEST_LONG"))

REACHED = ("executions", "runners without contact", "attempts killed", "submissions adopted", "runs cleared")


@pytest.mark.long
async def test_no_task_runs_twice_at_once_and_what_has_ended_stays_so(tmp_path: Path, cache: Path) -> None:
    await ride_out_unbroken(RUNNERS if LONG else SUITE, REACHED, tmp_path, cache)


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
async def test_no_task_of_a_frozen_runner_runs_beside_its_retry(tmp_path: Path, cache: Path) -> None:
    await ride_out_unbroken(FROZEN_RUNNERS, ("executions", "frozen runners killed"), tmp_path, cache)


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
@pytest.mark.parametrize("fault", RUNNER_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    await notice(fault, tmp_path, cache)
