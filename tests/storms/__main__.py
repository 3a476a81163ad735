"""Storms by hand: `python -m tests.storms [--great] [--seed N] [--aimed-at FAULT] [--fault FAULT]`, with the logs kept.

`--limits` is the storm over pools and limits, in its full size unless `--aimed-at` a fault of its own; `--brokers` the one over
three brokers, `--clocks` the one of wrong clocks, `--failover` the one in which Postgres fails over. `--release` is great storms
until a thousand daemons were killed, from `--seed` on; their logs are kept if something was broken.
"""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path

import anyio
from msgspec.structs import replace

from tests.servers import CHEAP_JAVA
from tests.storms import plans
from tests.storms.brokers.plans import BROKERS, GREAT_BROKERS
from tests.storms.brokers.storm import BrokersPlan, BrokersStorm
from tests.storms.clocks.faults import CLOCK_FAULTS
from tests.storms.clocks.plans import CLOCKED, LONG_CLOCKED
from tests.storms.clocks.storm import ClocksPlan, ClocksStorm
from tests.storms.failover.storm import FULL as FAILOVER
from tests.storms.failover.storm import FailoverPlan, FailoverStorm
from tests.storms.faults import FAULTS
from tests.storms.limits import plans as limits
from tests.storms.limits.faults import LIMIT_FAULTS
from tests.storms.limits.storm import LimitsPlan, LimitsStorm
from tests.storms.release import release
from tests.storms.storm import Plan, Storm, new_home, seed
from tidegate.daemon.standalone.jars import cache_of


async def main(plan: Plan | None, seed: int) -> int:
    """No plan is all of them that a release takes."""
    os.environ.update(CHEAP_JAVA)
    if plan is None:
        return await release(seed, cache_of(os.environ))
    storm = storm_of(plan, new_home(), seed)
    verdict = await storm.run()
    sys.stdout.write(storm.report(verdict) + "\n")
    return 1 if verdict.broken else 0


def storm_of(plan: Plan, home: Path, seed: int) -> Storm:
    cache = cache_of(os.environ)
    match plan:
        case LimitsPlan():
            return LimitsStorm(plan, home, cache, seed)
        case BrokersPlan():
            return BrokersStorm(plan, home, cache, seed)
        case ClocksPlan():
            return ClocksStorm(plan, home, cache, seed)
        case FailoverPlan():
            return FailoverStorm(plan, home, cache, seed)
        case _:
            return Storm(plan, home, cache, seed)


WHOLE = {
    "": (plans.STORM, plans.GREAT),
    "limits": (limits.FULL, limits.FULL),
    "brokers": (BROKERS, GREAT_BROKERS),
    "clocks": (CLOCKED, LONG_CLOCKED),
    "failover": (FAILOVER, FAILOVER),
}
"""The storms there are, as they fit into a test and great."""


KINDS = {
    "limits": "over pools and limits",
    "brokers": "over three brokers",
    "clocks": "of wrong clocks",
    "failover": "in which Postgres fails over, five times",
}


def read(parser: ArgumentParser) -> tuple[Plan | None, int]:
    parser.add_argument("--seed", type=int, default=seed())
    parser.add_argument("--great", action="store_true", help="more of everything: three daemons, 200 DAGs; twelve strikes")
    parser.add_argument("--release", action="store_true", help="great storms for hours")
    for name, what in KINDS.items():
        parser.add_argument(f"--{name}", action="store_const", dest="kind", const=name, default="", help=f"the storm {what}")
    faults = sorted({**FAULTS, **LIMIT_FAULTS, **CLOCK_FAULTS})
    aimed = {**plans.AIMED, **limits.AIMED}
    parser.add_argument("--aimed-at", choices=sorted(aimed), help="the small storm that this fault does not survive")
    parser.add_argument("--fault", choices=faults, default="", help="seed this fault in every daemon")
    chosen = parser.parse_args()
    if chosen.release:
        return None, chosen.seed
    plan = aimed[chosen.aimed_at] if chosen.aimed_at else WHOLE[chosen.kind][chosen.great]
    return replace(plan, fault=chosen.fault), chosen.seed


if __name__ == "__main__":
    sys.exit(anyio.run(main, *read(ArgumentParser(description=__doc__))))
