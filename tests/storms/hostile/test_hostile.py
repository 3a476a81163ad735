"""The storm of hostile inputs; and that it would notice daemons that do not contain them."""

import os
from pathlib import Path

import pytest

from tests.storms.hostile.faults import HOSTILE_FAULTS
from tests.storms.hostile.plans import HOSTILE
from tests.storms.kinds import ride_out_unbroken
from tests.storms.seeded import notice

REACHED = (
    "bad records",
    "holds",
    "bad files",
    "forged ends",
    "attempts that spoiled their files",
    "attempts of removed tasks",
    "runs with more events than they may consume",
)


async def test_hostile_inputs_cost_themselves_alone(tmp_path: Path, cache: Path) -> None:
    await ride_out_unbroken(HOSTILE, REACHED, tmp_path, cache)


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="takes most of a minute: make test-long")
@pytest.mark.parametrize("fault", HOSTILE_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    await notice(fault, tmp_path, cache)
