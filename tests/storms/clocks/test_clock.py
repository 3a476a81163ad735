"""The clock of a storm is as wrong as it is told to be, and counts seconds as ever."""

import sys
import time

import anyio
import pytest

from tests.storms.processes import ROOT

LOOK = """
import time
from datetime import UTC, datetime
from tests.storms.clocks.clock import set_wrong

before = time.monotonic()
set_wrong({spec!r})
time.sleep({after_s})
print(time.time(), datetime.now(UTC).timestamp(), time.monotonic() - before)
"""
SLOW_S = 60.0


@pytest.mark.parametrize(
    ("spec", "after_s", "ahead_s"), [("600", 0, 600), ("-600", 0, -600), ("0,600@0.2", 0, 0), ("0,600@0.2,-600@0.4", 1, -600)]
)
async def test_a_clock_is_wrong_by_what_it_is_told(spec: str, after_s: float, ahead_s: float) -> None:
    began_at = time.time()
    process = await anyio.run_process([sys.executable, "-c", LOOK.format(spec=spec, after_s=after_s)], cwd=ROOT)
    wall, told, seconds = map(float, process.stdout.split())

    assert 0 <= wall - ahead_s - began_at <= SLOW_S
    assert 0 <= told - wall < SLOW_S
    assert 0 <= seconds < SLOW_S
