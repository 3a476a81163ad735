"""The storm of edits: no event is lost, no run is made by an edit, and versions are distinct contents."""

import os
from pathlib import Path

import pytest

from tests.storms.edits.faults import EDIT_FAULTS
from tests.storms.edits.plans import GREAT_EDITS
from tests.storms.kinds import ride_out
from tests.storms.seeded import notice

LONG = bool(os.environ.get("TEST_LONG"))


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes three minutes: make test-long")
async def test_edits_lose_nothing_and_make_no_run(tmp_path: Path, cache: Path) -> None:
    verdict, report = await ride_out(GREAT_EDITS, tmp_path / "storm", cache)

    assert verdict.broken == set(), report
    assert verdict.reached["versions of edited DAGs"] > 2 * GREAT_EDITS.editing.files, report
    assert verdict.reached["edited DAGs that were gone"] > 10, report
    assert verdict.reached["runs of edited DAGs"] > GREAT_EDITS.editing.files, report


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="takes most of a minute: make test-long")
@pytest.mark.parametrize("fault", EDIT_FAULTS)
async def test_a_seeded_fault_is_noticed(fault: str, tmp_path: Path, cache: Path) -> None:
    await notice(fault, tmp_path, cache)
