"""Each door answers every input: a hundred here, always the same, others with `make test-long`, a million with `make fuzz`."""

import os
from random import Random

import pytest

from tests.fuzz.doors import DOORS
from tests.fuzz.play import play

LONG = bool(os.environ.get("TEST_LONG"))
SEED = int(os.environ.get("TEST_SEED") or (Random().randrange(2**31) if LONG else 0))
TIMES = 120 if LONG else 1
"""The factor on the number of inputs."""


@pytest.mark.long
@pytest.mark.timeout(3600 if LONG else 900)
@pytest.mark.parametrize("name", DOORS)
def test_a_door_answers_every_input(name: str, request: pytest.FixtureRequest) -> None:
    door, server, template = DOORS[name], "", ""
    if door.needs_postgres:
        server, template = request.getfixturevalue("postgres"), request.getfixturevalue("template")

    result = play(name, SEED, door.in_suite * TIMES, server, template)

    assert result.fault == "", f"TEST_SEED={SEED}: {result.fault}"
