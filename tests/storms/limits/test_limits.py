"""The storm over limits; and that it would notice if one of the things were missing that keep them."""

import os
from pathlib import Path

import pytest

from tests.storms.kinds import ride_out
from tests.storms.limits.checker import RARE
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.limits.plans import MINUTE, SUITE
from tests.storms.seeded import notice

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
async def test_no_limit_is_exceeded_and_no_task_waits_without_a_reason(tmp_path: Path, cache: Path) -> None:
    verdict, report = await ride_out(MINUTE if LONG else SUITE, tmp_path, cache)

    assert verdict.broken == set(), report
    assert verdict.missed <= RARE, report


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
@pytest.mark.parametrize("fault", LIMIT_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    await notice(fault, tmp_path, cache)
