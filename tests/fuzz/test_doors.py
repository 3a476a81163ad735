"""Each door answers every input: some thousands here, a million with `make fuzz`."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.doors import DOORS

INPUTS = 20_000 if os.environ.get("TEST_LONG") else 500


@pytest.mark.long
@pytest.mark.parametrize("name", DOORS)
def test_a_door_answers_every_input(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    door = DOORS[name]

    @settings(max_examples=INPUTS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def enter(data: Any) -> None:
        door.enter(data.draw(door.inputs), tmp_path)

    enter()
