"""Postgres fails over to its synchronous standby, back and forth, while two daemons are at work."""

import os
from pathlib import Path

import pytest

from tests.storms.failover.storm import SMALL, FailoverStorm
from tests.storms.storm import seed

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
async def test_nothing_is_lost_or_doubled_when_the_synchronous_standby_takes_over(tmp_path: Path, cache: Path) -> None:
    storm = FailoverStorm(SMALL, tmp_path, cache, seed())

    verdict = await storm.run()

    report = storm.report(verdict)
    assert verdict.broken == set(), report
    assert storm.couple.promotions == SMALL.promotions, report
    assert verdict.reached["server outages"] >= SMALL.promotions, report
    assert storm.losses == 0, report
