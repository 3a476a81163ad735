"""Each seeded fault still has what it takes away: one that does not fit any more shows nothing."""

from collections.abc import Callable, Mapping

import pytest

from tests.integration.model.faults import MODEL_FAULTS
from tests.integration.notify.faults import NOTIFY_FAULTS
from tests.simulation.faults import FAULTS as SIMULATED
from tests.storms import kinds, replace
from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.edits.faults import EDIT_FAULTS
from tests.storms.faults import FAULTS
from tests.storms.hostile.faults import HOSTILE_FAULTS
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.runners.faults import RUNNER_FAULTS

ALL: Mapping[str, Callable[[], None]] = {
    **FAULTS,
    **LIMIT_FAULTS,
    **CLOCK_FAULTS,
    **EDIT_FAULTS,
    **HOSTILE_FAULTS,
    **RUNNER_FAULTS,
    **SIMULATED,
    **MODEL_FAULTS,
    **NOTIFY_FAULTS,
}


def test_invariants_are_aimed_at_each_fault_of_a_storm() -> None:
    assert NOTICED_BY.keys() == set(kinds.FAULTS)


def test_a_storm_is_aimed_at_each_fault_of_a_storm() -> None:
    assert kinds.AIMED.keys() == set(kinds.FAULTS)


@pytest.mark.parametrize("fault", ALL)
def test_a_seeded_fault_fits(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert replace.seed_for_now(ALL[fault], monkeypatch)
