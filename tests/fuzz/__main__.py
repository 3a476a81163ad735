"""`python -m tests.fuzz --inputs 1000000`: gives inputs to all doors, in two processes, and prints what each door has got."""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal
from rich.progress import Progress

from tests import servers, temporary_folder
from tests.fuzz.doors import DOORS
from tests.fuzz.play import Result, play
from tests.tokens import make_known
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.standalone.postgres import Postgres

SLICE = 1000
"""Inputs from one seed: a fault is found again in seconds."""

PROCESSES = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many, over all doors")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="the first seed, to repeat a run")
    parser.add_argument("--door", choices=DOORS, help="only this door")
    chosen = parser.parse_args()
    temporary_folder.choose()
    shares = {chosen.door: 1} if chosen.door else {name: door.share for name, door in DOORS.items()}
    began = time.monotonic()
    results = _play(shares, chosen.inputs, chosen.seed)
    faults = [result for result in results if result.fault]
    lines = [f"{name:13} {sum(r.inputs for r in results if r.door == name):>9,} inputs" for name in shares]
    lines += [f"FAULT at door {fault.door!r}, seed {fault.seed}: {fault.fault}" for fault in faults]
    took_s = time.monotonic() - began
    total = sum(result.inputs for result in results)
    lines += [f"{total:,} inputs, {len(faults)} faults, {took_s:.0f} s, seed {chosen.seed}", ""]
    sys.stdout.write("\n".join(lines))
    return 1 if faults else 0


def _play(shares: Mapping[str, int], inputs: int, seed: int) -> Sequence[Result]:
    results: list[Result] = []
    slices = [
        (name, seed + n, size) for name, share in shares.items() for n, size in _slices(inputs * share // sum(shares.values()))
    ]
    context = multiprocessing.get_context("spawn")
    with _postgres(shares) as (server, template), ProcessPoolExecutor(PROCESSES, context) as pool, Progress() as progress:
        bar = progress.add_task("inputs", total=len(slices))
        playing = [pool.submit(play, *each, server, template) for each in slices]
        for each in playing:
            results.append(each.result())
            progress.advance(bar)
    return results


def _slices(inputs: int) -> Iterator[tuple[int, int]]:
    """The number and the size of each slice; the last may be smaller."""
    for number in range(max(-(-inputs // SLICE), 1)):
        yield number, max(min(SLICE, inputs - number * SLICE), 1)


@contextmanager
def _postgres(names: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """A Postgres with a migrated database, if a door needs one."""
    if not any(DOORS[name].needs_postgres for name in names):
        yield "", ""
        return
    with (
        tempfile.TemporaryDirectory() as home,
        start_blocking_portal() as portal,
    ):
        server = Postgres(Path(home), fsync=False)
        with portal.wrap_async_context_manager(server):
            superuser = server.dsn_of("postgres")
            name = portal.call(servers.create_database, superuser)
            portal.call(migrate, servers.dsn_of(superuser, name))
            portal.call(make_known, servers.dsn_of(superuser, name))
            yield superuser, name


if __name__ == "__main__":
    sys.exit(main())
