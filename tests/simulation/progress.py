"""How far many schedules are: as a bar on a terminal, as a line every minute elsewhere."""

import sys
from typing import TYPE_CHECKING

import anyio
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from tests.simulation.jobs import Run

BAR_S = 0.5
LINE_S = 60.0


async def tell_progress(run: "Run") -> None:
    """Until it is cancelled. A program that reads the verdict as JSON is told nothing else."""
    console = Console(stderr=True)
    if console.is_terminal and not run.chosen.json:
        await _move_bar(run, console)
    while not run.chosen.json:
        await anyio.sleep(LINE_S)
        sys.stderr.write(f"{line(run)}\n")


async def _move_bar(run: "Run", console: Console) -> None:
    with Progress(console=console, transient=True) as bar:
        shown = bar.add_task("schedules", total=run.chosen.schedules)
        while True:
            bar.update(shown, completed=run.verdict.schedules)
            await anyio.sleep(BAR_S)


def line(run: "Run") -> str:
    """The state of a run."""
    verdict = run.verdict
    broken = f"broken: {', '.join(sorted(verdict.broken)).replace('_', ' ')}" if verdict.broken else "nothing broken"
    return f"{verdict.schedules} of {run.chosen.schedules} schedules, {verdict.per_minute:.0f} a minute, {broken}"
