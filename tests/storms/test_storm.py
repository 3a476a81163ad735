"""The storm; and that it would notice if one of the things were missing that it is there to prove."""

import os
from pathlib import Path

import pytest

from tests.storms.faults import FAULTS
from tests.storms.invariants import attempts
from tests.storms.kinds import ride_out
from tests.storms.plans import STORM, SUITE
from tests.storms.seeded import notice

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
async def test_nothing_is_lost_or_doubled(tmp_path: Path, cache: Path) -> None:
    """What is rare and was not reached may be in a second storm."""
    missed: set[str] | None = None
    for number in range(2):
        verdict, report = await ride_out(STORM if LONG else SUITE, tmp_path / str(number), cache)
        assert verdict.broken == set(), report
        missed = verdict.missed if missed is None else missed & verdict.missed
        if not missed:
            break

    assert missed == set(), report


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long; make test notices most faults by simulation")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    for verdict, report in await notice(fault, tmp_path, cache):
        assert attempts.daemons_end_only_when_told.__name__ not in verdict.broken, report
