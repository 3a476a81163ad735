"""Of each seeded fault: which invariants give it away, in how many of the storms aimed at it, and after how long."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import anyio
from msgspec.structs import replace

from tests.storms.kinds import AIMED, storm_of
from tests.storms.noticed_by import NOTICED_BY
from tests.storms.storm import new_home

STORMS = 3
"""So many a fault may survive: it takes chance to bring it about."""


async def try_each(faults: Sequence[str], seed: int, cache: Path) -> int:
    """A row of a table for each, as soon as it is known. The exit code: 1 when the invariants aimed at one did not notice it."""
    unnoticed = 0
    for fault in faults:
        began_at = monotonic()
        broken, storms = await _try(fault, seed, cache)
        unnoticed += not broken >= NOTICED_BY[fault]
        said = "; ".join(sorted(name.replace("_", " ") for name in broken)) or "**nothing**"
        sys.stdout.write(f"| `{fault}` | {said} | {storms} | {monotonic() - began_at:.0f} |\n")
        sys.stdout.flush()
    return 1 if unnoticed else 0


async def _try(fault: str, seed: int, cache: Path) -> tuple[set[str], int]:
    for number in range(STORMS):
        storm = storm_of(replace(AIMED[fault], fault=fault), new_home(), cache, seed + number)
        verdict = await storm.run()
        await anyio.to_thread.run_sync(shutil.rmtree, storm.home)
        if verdict.broken >= NOTICED_BY[fault]:
            break
    return verdict.broken, number + 1
