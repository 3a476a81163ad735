"""Storms by hand: `python -m tests.storms [--great] [--seed N] [--aimed-at FAULT] [--fault FAULT]`, with the logs kept.

`--failover` is the one in which Postgres fails over, five times; `--limits` the storm over pools and limits, in its full size
unless `--aimed-at` a fault of its own. `--release` is great storms until a thousand daemons were killed, from `--seed` on; their
logs are kept if something was broken.
"""

import os
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

import anyio
from msgspec.structs import replace

from tests.storms import plans
from tests.storms.failover.storm import FULL as FAILOVER
from tests.storms.failover.storm import FailoverPlan, FailoverStorm
from tests.storms.faults import FAULTS
from tests.storms.limits import plans as limits
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.limits.storm import LimitsPlan, LimitsStorm
from tests.storms.release import release
from tests.storms.storm import Plan, Storm, seed
from tidegate.daemon.standalone.jars import cache_of


async def main(plan: Plan | None, seed: int) -> int:
    """No plan is all of them that a release takes."""
    if plan is None:
        return await release(seed, cache_of(os.environ))
    home = Path(tempfile.mkdtemp(prefix="storm-"))
    home.chmod(0o755)
    cache = cache_of(os.environ)
    storm = storm_of(plan, home, cache, seed)
    verdict = await storm.run()
    sys.stdout.write(storm.report(verdict) + "\n")
    return 1 if verdict.broken else 0


def storm_of(plan: Plan, home: Path, cache: Path, seed: int) -> Storm:
    match plan:
        case LimitsPlan():
            return LimitsStorm(plan, home, cache, seed)
        case FailoverPlan():
            return FailoverStorm(plan, home, cache, seed)
        case _:
            return Storm(plan, home, cache, seed)


def read(parser: ArgumentParser) -> tuple[Plan | None, int]:
    parser.add_argument("--seed", type=int, default=seed())
    parser.add_argument("--great", action="store_true", help="three daemons, 200 DAGs, and more of everything")
    parser.add_argument("--release", action="store_true", help="great storms for hours")
    parser.add_argument("--limits", action="store_true", help="the storm over pools and limits")
    parser.add_argument("--failover", action="store_true", help="the storm in which Postgres fails over, five times")
    faults = sorted({**FAULTS, **LIMIT_FAULTS})
    parser.add_argument("--aimed-at", choices=faults, help="the small storm that this fault does not survive")
    parser.add_argument("--fault", choices=faults, default="", help="seed this fault in every daemon")
    chosen = parser.parse_args()
    if chosen.release:
        return None, chosen.seed
    aimed = {**plans.AIMED, **limits.AIMED}
    whole = FAILOVER if chosen.failover else limits.FULL if chosen.limits else plans.GREAT if chosen.great else plans.STORM
    plan = aimed[chosen.aimed_at] if chosen.aimed_at else whole
    return replace(plan, fault=chosen.fault), chosen.seed


if __name__ == "__main__":
    sys.exit(anyio.run(main, *read(ArgumentParser(description=__doc__))))
