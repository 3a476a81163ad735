"""The wall clock of a process that is wrong, from inside. What counts seconds (the monotonic clock) goes on as it did.

Everything Python asks for the time is covered, whichever module asks and however it came by the function.
"""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import time_machine


def set_wrong(spec: str) -> None:
    """`600` is ten minutes fast from now on; `0,600@8,-600@16` is right, fast after 8 s, and slow after 16 s."""
    (first, _), *later = _steps(spec)
    traveller = time_machine.travel(datetime.now(UTC) + timedelta(seconds=first), tick=True)
    clock = traveller.start()
    offset = first
    for next_offset, after_s in later:
        jump = threading.Timer(after_s, clock.shift, [next_offset - offset])
        jump.daemon = True
        jump.start()
        offset = next_offset


def _steps(spec: str) -> Sequence[tuple[float, float]]:
    parts = (part.partition("@") for part in spec.split(","))
    return [(float(offset), float(after or 0)) for offset, _, after in parts]
