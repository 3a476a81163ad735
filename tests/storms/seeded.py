"""Of each seeded fault: which invariants give it away, in how many of the storms aimed at it, and after how long."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import anyio
from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.kinds import AIMED, storm_of
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.storm import new_home, seed

STORMS = 3
"""The storms that a fault may take: it takes chance to bring it about."""


async def try_each(faults: Sequence[str], seed: int, cache: Path) -> int:
    """A row of a table for each, as soon as it is known. The exit code: 1 when the invariants aimed at one did not notice it."""
    unnoticed = 0
    for fault in faults:
        began_at, home = monotonic(), new_home()
        found = await _ride_out(fault, home, cache, seed)
        await anyio.to_thread.run_sync(shutil.rmtree, home)
        broken = found[-1][0].broken
        unnoticed += not broken >= NOTICED_BY[fault]
        said = "; ".join(sorted(name.replace("_", " ") for name in broken)) or "**nothing**"
        sys.stdout.write(f"| `{fault}` | {said} | {len(found)} | {monotonic() - began_at:.0f} |\n")
        sys.stdout.flush()
    return 1 if unnoticed else 0


async def notice(fault: str, home: Path, cache: Path) -> list[tuple[Verdict, str]]:
    """The verdict and the report of each storm until one has noticed the fault. Raises AssertionError if none has."""
    found = await _ride_out(fault, home, cache, seed())
    verdict, report = found[-1]
    assert verdict.broken >= NOTICED_BY[fault], report
    return found


async def _ride_out(fault: str, home: Path, cache: Path, seed: int) -> list[tuple[Verdict, str]]:
    """Storms aimed at the fault, with seeds from this one on."""
    found: list[tuple[Verdict, str]] = []
    for number in range(STORMS):
        (home / str(number)).mkdir()
        storm = storm_of(replace(AIMED[fault], fault=fault), home / str(number), cache, seed + number)
        verdict = await storm.run()
        found.append((verdict, storm.report(verdict)))
        if verdict.broken >= NOTICED_BY[fault]:
            break
    return found
