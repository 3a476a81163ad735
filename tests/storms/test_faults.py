"""Each seeded fault still has what it takes away: one that does not fit any more shows nothing."""

from collections.abc import Callable, Mapping

import pytest

from tests.documents import ROOT
from tests.integration.model.faults import MODEL_FAULTS
from tests.integration.notify.faults import NOTIFY_FAULTS
from tests.simulation.faults import FAULTS as SIMULATED
from tests.storms import replace
from tests.storms.all_faults import ALL_FAULTS
from tests.storms.faults import FAULTS
from tests.storms.kinds import AIMED
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.noticed_by import NOTICED_BY

FITTED: Mapping[str, Callable[[], None]] = {**ALL_FAULTS, **SIMULATED, **MODEL_FAULTS, **NOTIFY_FAULTS}


def test_invariants_are_aimed_at_each_fault_of_a_storm() -> None:
    assert NOTICED_BY.keys() == ALL_FAULTS.keys()


def test_a_storm_is_aimed_at_each_fault_of_a_storm() -> None:
    assert AIMED.keys() == ALL_FAULTS.keys()


def test_the_page_says_how_many_faults_are_tried() -> None:
    page = (ROOT / "tests" / "README.md").read_text()

    assert f"| `storms/test_storm.py`, seeded faults | nothing | all {len(FAULTS)} |" in page
    assert f"| `storms/limits/test_limits.py`, seeded faults | nothing | all {len(LIMIT_FAULTS)} |" in page


@pytest.mark.parametrize("fault", FITTED)
def test_a_seeded_fault_fits(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert replace.seed_for_now(FITTED[fault], monkeypatch)
