"""The storm of hostile inputs; and that it would notice daemons that do not contain them."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.hostile.faults import HOSTILE_FAULTS
from tests.storms.hostile.plans import HOSTILE
from tests.storms.hostile.storm import HostilePlan, HostileStorm
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.storm import seed

REACHED = (
    "bad records",
    "holds",
    "bad files",
    "forged ends",
    "attempts that spoiled their files",
    "attempts of removed tasks",
    "runs with more events than they may consume",
)


async def ride_out(plan: HostilePlan, home: Path, cache: Path) -> tuple[Verdict, str]:
    home.mkdir()
    storm = HostileStorm(plan, home, cache, seed())
    verdict = await storm.run()
    return verdict, storm.report(verdict)


async def test_hostile_inputs_cost_themselves_alone(tmp_path: Path, cache: Path) -> None:
    """What is rare and was not reached may be in a second storm."""
    missed = set(REACHED)
    for number in range(2):
        verdict, report = await ride_out(HOSTILE, tmp_path / str(number), cache)
        assert verdict.broken == set(), report
        missed = {state for state in missed if not verdict.reached[state]}
        if not missed:
            break

    assert missed == set(), report


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="takes most of a minute: make test-long")
@pytest.mark.parametrize("fault", HOSTILE_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    verdict, report = await ride_out(replace(HOSTILE, fault=fault), tmp_path / "storm", cache)

    assert verdict.broken >= NOTICED_BY[fault], report
