"""Storms by hand: `python -m tests.storms [--great] [--seed N] [--aimed-at FAULT] [--fault FAULT]`, with the logs kept.

`--limits` is the storm over pools and limits, in its full size unless `--aimed-at` a fault of its own; `--brokers` the one over
three brokers, `--clocks` the one of wrong clocks, `--edits` the one of edited DAG files, `--failover` the one in which Postgres
fails over, `--hostile` the one of hostile inputs, `--runners` the one with real tasks, `--combined` the one over three brokers
with failovers and wrong clocks.
`--release` is great storms of the kind until `--kills` daemons were killed, from `--seed` on; their logs are kept if something
was broken. A great storm without a kind also fails if it missed a rare state: the plans of kinds leave out what leads to some of
these, such as named points to die at. A release fails if all of its storms missed one. `--faults` says of each seeded fault what
gives it away and after how long.
"""

import os
import sys
from argparse import ArgumentParser, Namespace

import anyio
from msgspec.structs import replace

from tests.servers import CHEAP_JAVA
from tests.storms import seeded
from tests.storms.all_faults import ALL_FAULTS
from tests.storms.kinds import AIMED, KINDS, WHOLE, storm_of
from tests.storms.release import release
from tests.storms.storm import new_home, seed
from tidegate.daemon.standalone.jars import cache_of

KILLS = 1000


async def main(chosen: Namespace) -> int:
    os.environ.update(CHEAP_JAVA)
    cache = cache_of(os.environ)
    if chosen.release:
        return await release(WHOLE[chosen.kind][True], chosen.seed, cache, chosen.kills)
    if chosen.faults:
        return await seeded.try_each([chosen.fault] if chosen.fault else [*ALL_FAULTS], chosen.seed, cache)
    plan = AIMED[chosen.aimed_at] if chosen.aimed_at else WHOLE[chosen.kind][chosen.great]
    storm = storm_of(replace(plan, fault=chosen.fault), new_home(), cache, chosen.seed)
    verdict = await storm.run()
    sys.stdout.write(storm.report(verdict) + "\n")
    return 1 if verdict.broken or (chosen.great and not chosen.kind and verdict.missed) else 0


def read(parser: ArgumentParser) -> Namespace:
    parser.add_argument("--seed", type=int, default=seed())
    parser.add_argument("--great", action="store_true", help="more of everything: three daemons, 200 DAGs; twelve strikes")
    parser.add_argument("--release", action="store_true", help="great storms for hours")
    parser.add_argument("--kills", type=int, default=KILLS, help="after how many kills a release ends (%(default)s)")
    for name, what in KINDS.items():
        parser.add_argument(f"--{name}", action="store_const", dest="kind", const=name, default="", help=f"the storm {what}")
    parser.add_argument("--aimed-at", choices=sorted(AIMED), help="the small storm that this fault does not survive")
    parser.add_argument("--fault", choices=sorted(ALL_FAULTS), default="", help="seed this fault in every daemon")
    parser.add_argument("--faults", action="store_true", help="seed each fault, or --fault, in storms aimed at it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(anyio.run(main, read(ArgumentParser(description=__doc__))))
