"""`tidegate doctor`: what is wrong with the installation, and what to do."""

from typing import TYPE_CHECKING

import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import shown

if TYPE_CHECKING:
    from tidegate.daemon.read_model.system import System


def doctor(context: typer.Context, *, json: Json = False) -> None:
    """Say what is wrong with the installation, and what to do: daemons, servers, leases, partitions, losses, schema,
    DAG files, dead letters, the newest entries of the audit log. The last line is the verdict.

    Exit code 1 if anything is wrong.
    """
    from tidegate.daemon.read_model.system import System, read_system

    system, _ = shown(context, "/system", System, read_system)
    output.write_page(system, lambda: _print(system), json=json)
    if system.problems:
        raise typer.Exit(1)


def _print(system: "System") -> None:
    for line in (*system.problems, system.verdict):
        output.write(line)
