"""The storm over limits; and that it would notice if one of the things were missing that keep them."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.storms.limits.checker import RARE
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.limits.plans import AIMED, MINUTE, SUITE
from tests.storms.limits.storm import LimitsPlan, LimitsStorm
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.seeded import STORMS
from tests.storms.storm import seed

LONG = bool(os.environ.get("TEST_LONG"))


async def ride_out(plan: LimitsPlan, home: Path, cache: Path) -> tuple[set[str], set[str], str]:
    """The broken invariants, the states that were not reached, and the report."""
    home.mkdir(exist_ok=True)
    storm = LimitsStorm(plan, home, cache, seed())
    verdict = await storm.run()
    return verdict.broken, verdict.missed, storm.report(verdict)


@pytest.mark.long
async def test_no_limit_is_exceeded_and_no_task_waits_without_a_reason(tmp_path: Path, cache: Path) -> None:
    broken, missed, report = await ride_out(MINUTE if LONG else SUITE, tmp_path, cache)

    assert broken == set(), report
    assert missed <= RARE, report


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
@pytest.mark.parametrize("fault", LIMIT_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    """Within three storms: it takes chance to bring it about."""
    for number in range(STORMS):
        broken, _, report = await ride_out(replace(AIMED[fault], fault=fault), tmp_path / str(number), cache)
        if broken >= NOTICED_BY[fault]:
            return

    raise AssertionError(report)
