"""Before a release: storms, seed after seed, until enough daemons were killed, or one of them breaks something."""

import shutil
from collections import Counter
from pathlib import Path
from time import monotonic

import anyio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.storms.checker import Verdict
from tests.storms.kinds import storm_of
from tests.storms.storm import Plan, Storm, new_home

DONE = {
    "terminate": "told to stop",
    "freeze": "frozen for longer than leases last",
    "kill the broker": "the broker killed",
    "crash Postgres": "Postgres crashed",
    "half of all connections": "half of all connections ended",
    "cut commits": "bursts of commits cut",
    "stands still": "a way stood still",
    "is slow": "a way was slow",
    "kill broker": "brokers killed",
    "stop broker": "brokers stopped in good order",
    "freeze broker": "a broker frozen",
    "failed over": "Postgres failed over",
}
"""By what the diary says of it."""


class Tally:
    """What was done in all storms so far, and what they reached."""

    def __init__(self) -> None:
        self.storms = 0
        self.done: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()

    @property
    def kills(self) -> int:
        return self.done["killed"]

    def add(self, storm: Storm, verdict: Verdict) -> None:
        self.storms += 1
        self.reached.update(verdict.reached)
        self.done["killed"] += sum(end.code == -9 for daemon in storm.daemons for end in daemon.ends)
        for _, what in storm.diary:
            self.done.update(name for words, name in DONE.items() if words in what)

    @property
    def missed(self) -> list[str]:
        """Rare states that no storm reached."""
        return sorted(Verdict({}, self.reached).missed)

    def table(self) -> Table:
        table = Table("", "in all")
        for what, count in (*self.done.items(), *self.reached.items()):
            table.add_row(what, f"{count:,}")
        return table


async def release(plan: Plan, seed: int, cache: Path, kills: int) -> int:
    """The exit code: 1 when a storm broke something, or none reached one of the rare states.

    The logs of a storm that broke something are kept, and it says where.
    """
    console, tally, began_at = Console(stderr=True), Tally(), monotonic()
    columns = (TextColumn("killed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=kills)
        while tally.kills < kills:
            storm = storm_of(plan, new_home(), cache, seed)
            verdict = await storm.run()
            tally.add(storm, verdict)
            progress.update(bar, completed=tally.kills)
            if verdict.broken:
                console.print(storm.report(verdict), markup=False)
                return 1
            missed = f", not reached: {', '.join(sorted(verdict.missed))}" if verdict.missed else ""
            console.print(f"seed {seed}: {len(verdict.violations)} of {len(verdict.violations)} hold{missed}")
            await anyio.to_thread.run_sync(shutil.rmtree, storm.home)
            seed += 1
    Console().print(tally.table())
    if tally.missed:
        console.print(f"in none of {tally.storms} storms: {', '.join(tally.missed)}")
        return 1
    Console().print(f"{tally.storms} storms in {(monotonic() - began_at) / 3600:.1f} h: nothing was broken")
    return 0
