"""The storm over three brokers."""

import os
from pathlib import Path

import pytest

from tests.storms.brokers.plans import BROKERS
from tests.storms.brokers.storm import BrokersStorm
from tests.storms.storm import seed

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
async def test_nothing_is_lost_or_doubled_while_brokers_come_and_go(tmp_path: Path, cache: Path) -> None:
    storm = BrokersStorm(BROKERS, tmp_path, cache, seed())
    verdict = await storm.run()
    report = storm.report(verdict)

    assert verdict.broken == set(), report
    assert storm.moves > 0, report
    assert verdict.reached["server outages"] > 0, report
    assert storm.tally.unknown > 0, report
