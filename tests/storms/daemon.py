"""Start the real daemon, prepared from outside: `python -m tests.storms.daemon`, with its settings in `TIDEGATE_*` as ever.

--cluster HOST:PORT   tasks run on the scripted cluster that listens there, and not on this host
--fault NAME          one function or SQL statement is replaced by a broken one
--die-at POINT[:N]    `kill -9` of itself the N-th time that it reaches the point
--clock SECONDS       the wall clock is so much ahead; `clocks/clock.py` says how it may also jump
--local               tasks of DAGs whose id begins with `local_` run on this host nevertheless
--note-looks          admissions say in the journal of `limits/` how much of it they saw
"""

# ruff: noqa: E402 - the threshold comes before the imports

import gc
import os
from argparse import ArgumentParser
from collections.abc import Sequence

from tidegate.daemon.cli.entry import GC_THRESHOLD

gc.set_threshold(GC_THRESHOLD)  # as the command does; looking for garbage while modules are imported is a quarter of a start

from tidegate.daemon import log

# isort: split
from tests.storms.all_faults import ALL_FAULTS
from tests.storms.backend import ClusterBackend
from tests.storms.hostile.backend import HostileBackend
from tests.storms.killpoints import arm
from tests.storms.limits.watch import note_looks
from tests.storms.replace import replace
from tidegate.daemon import supervisor
from tidegate.daemon.settings import read


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--cluster")
    parser.add_argument("--fault", choices=sorted(ALL_FAULTS))
    parser.add_argument("--die-at", default="")
    parser.add_argument("--clock", default="")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--note-looks", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.clock:
        from tests.storms.clocks.clock import set_wrong  # noqa: PLC0415 - it imports pytest, which takes a third of a start

        set_wrong(chosen.clock)
    settings = read(os.environ)
    log.configure(settings.log_format)
    if chosen.cluster:
        backend = HostileBackend(chosen.cluster, settings) if chosen.local else ClusterBackend(chosen.cluster)
        replace(supervisor, "open_backends", lambda _: {backend.name: backend})
    if chosen.fault:
        ALL_FAULTS[chosen.fault]()
    if chosen.note_looks:
        note_looks()
    if chosen.die_at:
        arm(chosen.die_at)
    supervisor.main(settings)


if __name__ == "__main__":
    main()
