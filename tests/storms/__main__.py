"""Storms by hand: `python -m tests.storms [--seed N] [--aimed-at FAULT] [--fault FAULT]`, with the logs kept."""

import os
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

import anyio
from msgspec.structs import replace

from tests.storms.faults import FAULTS
from tests.storms.plans import AIMED, STORM
from tests.storms.storm import Plan, Storm, seed
from tidegate.daemon.standalone.jars import cache_of


async def main(plan: Plan, seed: int) -> int:
    home = Path(tempfile.mkdtemp(prefix="storm-"))
    home.chmod(0o755)
    storm = Storm(plan, home, cache_of(os.environ), seed)
    verdict = await storm.run()
    sys.stdout.write(storm.report(verdict) + "\n")
    return 1 if verdict.broken else 0


def read(parser: ArgumentParser) -> tuple[Plan, int]:
    parser.add_argument("--seed", type=int, default=seed())
    parser.add_argument("--aimed-at", choices=sorted(AIMED), help="the small storm that this fault does not survive")
    parser.add_argument("--fault", choices=sorted(FAULTS), default="", help="seed this fault in every daemon")
    chosen = parser.parse_args()
    plan = AIMED[chosen.aimed_at] if chosen.aimed_at else STORM
    return replace(plan, fault=chosen.fault), chosen.seed


if __name__ == "__main__":
    sys.exit(anyio.run(main, *read(ArgumentParser(description=__doc__))))
