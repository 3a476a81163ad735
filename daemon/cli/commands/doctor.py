"""`tidegate doctor`: what is wrong with the installation, and what to do."""

from typing import TYPE_CHECKING

import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import shown
from tidegate.schemas.text import counted

if TYPE_CHECKING:
    from tidegate.daemon.read_model.system import System


def doctor(context: typer.Context, *, json: Json = False) -> None:
    """Say what is wrong with the installation, and what to do: daemons, servers, leases, partitions, losses, schema, DAG files.

    Exit code 1 if anything is wrong.
    """
    from tidegate.daemon.read_model.system import System, read_system

    system, _ = shown(context, "/system", System, read_system)
    output.write_page(system, lambda: _print(system), json=json)
    if system.problems:
        raise typer.Exit(1)


def _print(system: "System") -> None:
    for problem in system.problems:
        output.write(problem)
    if not system.problems:
        output.write(f"all well: {counted(len(system.daemons), 'daemon is', 'daemons are')} alive")
