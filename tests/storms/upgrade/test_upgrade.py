"""A new build takes the place of the one before, over a migration, while both are at work."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.storms.processes import ROOT
from tests.storms.storm import seed
from tests.storms.upgrade.builds import NEXT, next_one
from tests.storms.upgrade.storm import UpgradeStorm

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
async def test_nothing_is_lost_or_doubled_while_daemons_are_replaced(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "build").mkdir()
    after = next_one(tmp_path / "build")
    storm = UpgradeStorm(tmp_path, cache, seed(), before=ROOT, after=after)

    verdict = await storm.run()

    report = storm.report(verdict)
    assert verdict.broken == set(), report
    assert storm.complaints == [], report
    assert storm.refused is not None
    assert storm.migrated is not None
    applied = msgspec.json.decode(storm.migrated.out)["applied"]
    assert (storm.refused.code, storm.refused.err.splitlines()[-1]) == (
        1,
        f"tidegate: the database lacks migration {applied[0]}; run `tidegate migrate`",
    )
    assert applied == [NEXT]
    ended = [(end.daemon, end.code, end.told) for end in storm.daemons[0].ends + storm.daemons[1].ends]
    assert ended == [("a", 0, True), ("a", 0, True), ("b", 0, True), ("b", 0, True)], report
