"""`python -m tests.benchmarks [A B …] [--repeat N] [--minutes N] [--scale N] [--paint] [--json]`: figures beside the peer's."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import anyio
import msgspec
import typer
import uvloop
from rich.console import Console

from tests.benchmarks.figures import Figure, table
from tests.benchmarks.held_scenarios import MINUTES, j
from tests.benchmarks.page_scenarios import SCALE, w1
from tests.benchmarks.scenarios import SCENARIOS, Scenario


def main(
    scenarios: Annotated[
        list[str] | None, typer.Argument(help=f"Some of {', '.join(SCENARIOS)}; all of them if none is named.")
    ] = None,
    *,
    repeat: Annotated[int, typer.Option(min=2, help="Measurements of each, after one to warm up.")] = 5,
    minutes: Annotated[float, typer.Option(min=0, help="How long J holds a transaction open.")] = MINUTES,
    scale: Annotated[float, typer.Option(min=0.001, max=1, help="The share of the size of W1.")] = SCALE,
    paint: Annotated[
        bool, typer.Option("--paint", help="Also the first paint of the heaviest pages of W1, in Chromium.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON array instead of a table.")] = False,
) -> None:
    """Start fresh servers for each scenario and measure it."""
    chosen = scenarios or list(SCENARIOS)
    if unknown := [name for name in chosen if name not in SCENARIOS]:
        raise typer.BadParameter(f"there is no scenario {unknown[0]}; there are {', '.join(SCENARIOS)}")
    known: Mapping[str, Scenario] = {**SCENARIOS, "J": partial(j, minutes=minutes), "W1": partial(w1, scale=scale, paints=paint)}
    wanted = {name: known[name] for name in chosen}
    figures = anyio.run(measure, wanted, repeat, backend_options={"loop_factory": uvloop.new_event_loop})
    if json:
        typer.echo(msgspec.json.encode(figures).decode())
    else:
        Console(width=None if Console().is_terminal else 160).print(table(figures))


async def measure(chosen: Mapping[str, Scenario], repeat: int) -> list[Figure]:
    progress = Console(stderr=True)
    figures: list[Figure] = []
    for name, scenario in chosen.items():
        doc = (SCENARIOS[name].__doc__ or "").strip()
        with progress.status(f"{name}: {doc}"):
            figures += await scenario(repeat)
        progress.print(f"{name} done", style="dim")
    return figures


if __name__ == "__main__":
    typer.run(main)
