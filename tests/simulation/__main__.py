"""Simulation by hand: `python -m tests.simulation --seed N` tells the story of one schedule, `--schedules N` plays many.

`--fault NAME` seeds a fault; `--faults` says of each how soon it is noticed, and by what. `--kept` plays those of `seeds.txt`.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from rich.progress import track

from tests.simulation import replaced
from tests.simulation.faults import AIMED, FAULTS
from tests.simulation.loop import VirtualLoop
from tests.simulation.play import Player
from tests.simulation.prepare import prepare
from tests.simulation.verdict import Verdict
from tidegate.daemon.standalone.postgres import Postgres

PATIENCE_S = 240
KEPT = Path(__file__).with_name("seeds.txt")


def main(chosen: Namespace) -> int:
    with _server(chosen.dsn) as dsn:
        if chosen.faults:
            return _try_faults(chosen, dsn)
        replaced.prepare()
        if chosen.fault:
            FAULTS[chosen.fault]()
        return _play(chosen, dsn)


@contextmanager
def _server(dsn: str) -> Iterator[str]:
    """That of whoever asks, or one of our own."""
    if dsn:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="simulation-") as home, start_blocking_portal() as portal:
        Path(home).chmod(0o755)
        with portal.wrap_async_context_manager(Postgres(Path(home), fsync=False)) as server:
            portal.call(prepare, server.dsn)
            yield server.dsn


def _play(chosen: Namespace, dsn: str) -> int:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_tell(loop, dsn, chosen) if chosen.seed is not None else _judge(loop, dsn, chosen))
    finally:
        loop.close()


async def _tell(loop: VirtualLoop, dsn: str, chosen: Namespace) -> int:
    async with Player(loop, dsn, AIMED.get(chosen.fault, ())) as player:
        for number in range(chosen.after):
            await player.play(chosen.base + number)
        played = await player.play(chosen.seed)
    sys.stdout.write("\n".join([*played.story, *(["broken:"] if played.broken else []), *played.sentences, ""]))
    return 1 if played.broken else 0


async def _judge(loop: VirtualLoop, dsn: str, chosen: Namespace) -> int:
    verdict = Verdict()
    began = time.monotonic()
    async with Player(loop, dsn, AIMED.get(chosen.fault, ())) as player:
        for seed in _shown(_seeds(chosen), quiet=chosen.json):
            played = await player.play(seed)
            verdict.add(played)
            if played.broken and not chosen.json:
                sys.stdout.write("\n".join([f"seed {seed}:", *played.sentences[: chosen.lines], ""]))
                sys.stdout.flush()
            if (verdict.broken and chosen.first) or time.monotonic() - began > chosen.seconds:
                break
        verdict.statements, verdict.reached = player.server.statements, dict(player.reached)
    verdict.seconds = time.monotonic() - began
    if chosen.json:
        sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
    else:
        sys.stdout.write(verdict.table() + "\n")
    return 1 if verdict.broken else 0


def _seeds(chosen: Namespace) -> Sequence[int]:
    return kept() if chosen.kept else range(chosen.base, chosen.base + chosen.schedules)


def kept() -> list[int]:
    """Seeds in which something broke once."""
    lines = [line.partition("#")[0].strip() for line in KEPT.read_text().splitlines()]
    return [int(line) for line in lines if line]


def _shown(seeds: Sequence[int], *, quiet: bool) -> Iterator[int]:
    if quiet:
        yield from seeds
    else:
        yield from track(seeds, "schedules", console=Console(stderr=True), transient=True)


def _try_faults(chosen: Namespace, dsn: str) -> int:
    """Each in processes of its own, for what is replaced stays replaced."""
    unseen = 0
    for fault in [chosen.fault] if chosen.fault else FAULTS:
        verdicts = [noticed(fault, dsn, chosen.base + 1_000_000 * number, chosen.schedules) for number in range(chosen.bases)]
        seen = [verdict for verdict in verdicts if verdict.broken]
        unseen += len(seen) < len(verdicts)
        names = sorted({name.replace("_", " ") for verdict in seen for name in verdict.broken})
        schedules = sum(verdict.schedules for verdict in verdicts) / len(verdicts)
        seconds = sum(verdict.seconds for verdict in verdicts) / len(verdicts)
        count = f"{len(seen)} of {len(verdicts)}"
        sys.stdout.write(f"| {fault} | {'; '.join(names)} | {count} | {schedules:.0f} | {seconds:.1f} s |\n")
        sys.stdout.flush()
    return 1 if unseen else 0


def noticed(fault: str, dsn: str, base: int, schedules: int) -> Verdict:
    """Up to the first schedule that notices it."""
    many = ["--base", str(base), "--schedules", str(schedules), "--seconds", str(PATIENCE_S)]
    options = ["--fault", fault, *many, "--first", "--json", "--dsn", dsn]
    found = subprocess.run([sys.executable, "-m", "tests.simulation", *options], stdout=subprocess.PIPE, env=STEADY, check=False)
    return msgspec.json.decode(found.stdout, type=Verdict)


STEADY = {**os.environ, "PYTHONHASHSEED": "0"}
"""In another order of sets a seed would be another schedule."""


def read() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--after", type=int, default=0, help="play so many others before")
    parser.add_argument("--base", type=int, default=0)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=86_400.0, help="at most about so long")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--bases", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="end with the first schedule that breaks something")
    parser.add_argument("--lines", type=int, default=5, help="of what broke in a schedule, at most")
    parser.add_argument("--json", action="store_true", help="the verdict for a program")
    parser.add_argument("--dsn", default="", help="a database that is prepared already")
    return parser.parse_args()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        sys.exit(subprocess.run(again, env=STEADY, check=False).returncode)
    sys.exit(main(read()))
