"""The storm of wrong clocks; and that it would notice a daemon that believes its own."""

import os
from pathlib import Path

import pytest

from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.clocks.plans import LONG_CLOCKED
from tests.storms.kinds import ride_out
from tests.storms.seeded import notice

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
async def test_wrong_clocks_shift_nothing(tmp_path: Path, cache: Path) -> None:
    verdict, report = await ride_out(LONG_CLOCKED, tmp_path, cache)

    assert verdict.broken == set(), report
    assert verdict.reached["timed runs"] > 0, report
    assert verdict.reached["second tries of timed runs"] > 0, report
    assert verdict.reached["deadlines missed"] > 0, report


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
@pytest.mark.parametrize("fault", CLOCK_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    await notice(fault, tmp_path, cache)
