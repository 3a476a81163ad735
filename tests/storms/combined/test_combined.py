"""The storm over three brokers, with failovers of Postgres and wrong clocks."""

import os
from pathlib import Path

import pytest

from tests.storms.combined.plans import COMBINED
from tests.storms.combined.storm import CombinedStorm
from tests.storms.storm import seed

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes minutes: make test-long")
async def test_nothing_is_lost_or_doubled_when_all_servers_change_and_clocks_are_wrong(tmp_path: Path, cache: Path) -> None:
    storm = CombinedStorm(COMBINED, tmp_path, cache, seed())
    verdict = await storm.run()

    report = storm.report(verdict)
    assert verdict.broken == set(), report
    assert storm.couple.promotions == COMBINED.promotions, report
    assert storm.moves > 0, report
    assert verdict.reached["timed runs"] > 0, report
