"""Simulation by hand: `python -m tests.simulation --seed N` tells the story of one schedule, `--schedules N` plays many.

`--fault NAME` seeds a fault; `--faults` says of each how soon it is noticed, and by what. `--kept` plays those of `seeds.txt`.
"""

import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.simulation import jobs, replaced
from tests.simulation.dags import GROUPS
from tests.simulation.faults import AIMED, FAULTS
from tests.simulation.loop import VirtualLoop
from tests.simulation.play import Player
from tests.simulation.verdict import Verdict

KEPT = Path(__file__).with_name("seeds.txt")

PART = 20
"""The schedules after which a process reports what came of them."""


class Interrupt:
    """Ctrl-c: the schedule that is being played is played to its end, and what came of all of them is told.

    A second one ends the process, also where a schedule hangs.
    """

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_: object) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def main(chosen: Namespace) -> int:
    """On a given database what is chosen is played here, otherwise in processes on servers of their own."""
    if not chosen.dsn:
        return anyio.run(jobs.run, chosen)
    replaced.prepare()
    if chosen.fault:
        FAULTS[chosen.fault]()
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_tell(loop, chosen) if chosen.seed is not None else _judge(loop, chosen))
    finally:
        loop.close()


async def _tell(loop: VirtualLoop, chosen: Namespace) -> int:
    async with Player(loop, chosen.dsn, _groups(chosen)) as player:
        for number in range(chosen.after):
            await player.play(chosen.base + number)
        played = await player.play(chosen.seed)
    sys.stdout.write("\n".join([*played.story, *(["broken:"] if played.broken else []), *played.sentences, ""]))
    return 1 if played.broken else 0


async def _judge(loop: VirtualLoop, chosen: Namespace) -> int:
    all_, began, interrupt = Verdict(), time.monotonic(), Interrupt()
    async with Player(loop, chosen.dsn, _groups(chosen)) as player:
        seeds = _seeds(chosen)
        for start in range(0, len(seeds), PART):
            part = await _play(player, seeds[start : start + PART], chosen, interrupt)
            if chosen.json:
                part.write(as_json=True)
            elif part.sentences:
                sys.stdout.write("\n".join([*part.sentences, ""]))
            all_.join(part)
            if interrupt.came or (all_.broken and chosen.first) or time.monotonic() - began > chosen.seconds:
                break
    if not chosen.json:
        all_.write(as_json=False)
    return 1 if all_.broken else 0


def _groups(chosen: Namespace) -> Sequence[str]:
    """The chosen group, or the groups of the fault; none: all."""
    return [chosen.group] if chosen.group else AIMED.get(chosen.fault, ())


async def _play(player: Player, seeds: Sequence[int], chosen: Namespace, interrupt: Interrupt) -> Verdict:
    part, began = Verdict(), time.monotonic()
    for seed in seeds:
        part.add(await player.play(seed), chosen.lines)
        if interrupt.came or (part.broken and chosen.first):
            break
    part.statements, player.server.statements = player.server.statements, 0
    part.reached.update(player.reached)
    player.reached.clear()
    part.seconds = time.monotonic() - began
    return part


def _seeds(chosen: Namespace) -> Sequence[int]:
    return kept() if chosen.kept else range(chosen.base, chosen.base + chosen.schedules)


def kept() -> list[int]:
    """Seeds in which something broke once."""
    lines = [line.partition("#")[0].strip() for line in KEPT.read_text().splitlines()]
    return [int(line) for line in lines if line]


def read() -> Namespace:
    parser = ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--after", type=int, default=0, help="play this number of others before")
    parser.add_argument("--base", type=int, default=0)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=86_400.0, help="at most about so long")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="")
    parser.add_argument("--group", choices=sorted(GROUPS), default="", help="only schedules about these DAGs")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--bases", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="end with the first schedule that breaks something")
    parser.add_argument("--lines", type=int, default=5, help="of what broke in a schedule, at most")
    parser.add_argument("--json", action="store_true", help="a verdict of every few schedules, for a program")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes that play side by side, each with a server"
    )
    parser.add_argument("--dsn", default="", help="a database that is prepared already; there is one process then")
    return parser.parse_args()


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], jobs.STEADY)  # noqa: S606 - itself
    try:
        sys.exit(main(read()))
    except KeyboardInterrupt:  # before anything was played
        sys.exit(jobs.INTERRUPTED)
