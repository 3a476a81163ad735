"""`tidegate daemons`: the processes that schedule."""

import typer

from tidegate.daemon.cli.command import Json, command_group, examples
from tidegate.daemon.cli.pages.lists import DAEMONS, print_list
from tidegate.daemon.cli.session import listed
from tidegate.schemas.queries import system_pages
from tidegate.schemas.queries.system_pages import DaemonLine

app = command_group()


@app.command("list", epilog=examples("tidegate daemons list", "tidegate daemons list --json | jq '.[].away'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List the daemons that are alive, oldest first, with their leases and the servers that each cannot reach."""
    print_list(DAEMONS, *listed(context, "/daemons", DaemonLine, system_pages.daemons), json=json)
