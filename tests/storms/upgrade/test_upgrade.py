"""A new build takes the place of the one before, over a migration, while both are at work."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.storms.processes import ROOT
from tests.storms.storm import seed
from tests.storms.upgrade.builds import NEXT, next_one, previous
from tests.storms.upgrade.storm import UpgradeStorm


def from_the_previous(folder: Path) -> tuple[Path, Path]:
    """What came before the newest migration, as history has it, and what there is."""
    build = previous(folder)
    if build is None:
        pytest.skip("the checkout does not go back to before the newest migration; the other way is always tried")
    return build, ROOT


def to_the_next(folder: Path) -> tuple[Path, Path]:
    """What there is, and one with a migration more."""
    return ROOT, next_one(folder)


@pytest.mark.parametrize("builds", [from_the_previous, to_the_next])
async def test_nothing_is_lost_or_doubled_while_daemons_are_replaced(
    builds: Callable[[Path], tuple[Path, Path]], tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "build").mkdir()
    before, after = builds(tmp_path / "build")
    storm = UpgradeStorm(tmp_path, cache, seed(), before=before, after=after)

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
    assert applied != []
    assert applied == [NEXT] or after == ROOT
    ended = [(end.daemon, end.code, end.told) for end in storm.daemons[0].ends + storm.daemons[1].ends]
    assert ended == [("a", 0, True), ("a", 0, True), ("b", 0, True), ("b", 0, True)], report
