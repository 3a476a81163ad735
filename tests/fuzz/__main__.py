"""`python -m tests.fuzz --inputs 1000000`: gives inputs to all doors, in two processes, and prints what each door has got."""

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from rich.progress import Progress

from tests.fuzz.doors import DOORS

PHASES = (Phase.generate, Phase.shrink)

SLICE = 1000
"""Inputs from one seed: a fault is found again in seconds."""


class Result(NamedTuple):
    """`fault`: the smallest input that the door did not answer, with the exception; empty if it answered all."""

    door: str
    seed: int
    inputs: int
    fault: str


def play(name: str, seed: int, inputs: int) -> Result:
    """Give this many inputs to a door."""
    door, entered = DOORS[name], 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as home:  # noqa: S108 - in memory

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=inputs,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            phases=PHASES,
        )
        @given(st.data())
        def enter(data: Any) -> None:
            nonlocal entered
            entered += 1
            door.enter(data.draw(door.inputs), Path(home))

        said = StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                enter()
        except Exception as error:  # noqa: BLE001 - any exception is the result
            return Result(name, seed, entered, f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}")
    return Result(name, seed, entered, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, over all doors")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="the first seed, to repeat a run")
    parser.add_argument("--door", choices=DOORS, help="only this door")
    given_ = parser.parse_args()
    shares = {given_.door: 1000} if given_.door else {name: door.share for name, door in DOORS.items()}
    total = sum(shares.values())
    slices = [(name, n) for name, share in shares.items() for n in range(max(given_.inputs * share // total // SLICE, 1))]
    began, counts, faults = time.monotonic(), dict.fromkeys(shares, 0), []
    with ProcessPoolExecutor(2) as pool, Progress() as progress:
        bar = progress.add_task("inputs", total=len(slices))
        for result in pool.map(play, *zip(*((name, given_.seed + n, SLICE) for name, n in slices), strict=True)):
            counts[result.door] += result.inputs
            faults += [result] if result.fault else []
            progress.advance(bar)
    lines = [f"{name:12} {count:>9,} inputs" for name, count in counts.items()]
    lines += [f"FAULT at door {fault.door!r}, seed {fault.seed}: {fault.fault}" for fault in faults]
    took_s = time.monotonic() - began
    lines += [f"{sum(counts.values()):,} inputs, {len(faults)} faults, {took_s:.0f} s, seed {given_.seed}", ""]
    sys.stdout.write("\n".join(lines))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
