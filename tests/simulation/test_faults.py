"""Each seeded fault still has what it takes away: one that does not fit any more shows nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.simulation.faults import FAULTS as SIMULATED
from tests.storms import kinds, replace
from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.faults import FAULTS
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.runners.faults import RUNNER_FAULTS

ALL: Mapping[str, Callable[[], None]] = {**FAULTS, **LIMIT_FAULTS, **CLOCK_FAULTS, **RUNNER_FAULTS, **SIMULATED}


def test_invariants_are_aimed_at_each_fault_of_a_storm() -> None:
    assert NOTICED_BY.keys() == set(kinds.FAULTS)


@pytest.mark.parametrize("fault", ALL)
def test_a_seeded_fault_fits(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[str] = []

    def put_for_now(owner: Any, name: str, new: object) -> None:
        seeded.append(name)
        if isinstance(owner, dict):
            monkeypatch.setitem(owner, name, new)
        else:
            monkeypatch.setattr(owner, name, new)

    monkeypatch.setattr(replace, "put", put_for_now)

    ALL[fault]()

    assert seeded
