"""Each door answers every input: some hundreds here, a million with `make fuzz`."""

import os

import pytest

from tests.fuzz.doors import DOORS
from tests.fuzz.play import play

LONG = 40
"""So many times as many inputs in a long run."""


@pytest.mark.long
@pytest.mark.timeout(3600 if os.environ.get("TEST_LONG") else 300)
@pytest.mark.parametrize("name", DOORS)
def test_a_door_answers_every_input(name: str, request: pytest.FixtureRequest) -> None:
    door, seed = DOORS[name], int(os.environ.get("TEST_SEED", "0"))
    server, template = (
        (request.getfixturevalue(fixture) for fixture in ("postgres", "template")) if door.needs_postgres else ("", "")
    )

    result = play(name, seed, door.in_suite * (LONG if os.environ.get("TEST_LONG") else 1), server, template)

    assert result.fault == ""
