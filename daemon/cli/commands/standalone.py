"""`tidegate standalone up | down | status | env | link | logs`: everything on this machine, in the background."""

import os
import shlex
from typing import Annotated

import typer

from tidegate.daemon.cli.command import Json, command_group, examples
from tidegate.daemon.cli.commands.servers import DATA, Data, Days, Example, Pace, serve
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.standalone import print_lines, print_status, status_of
from tidegate.daemon.cli.session import read_settings
from tidegate.daemon.settings import environment, read

app = command_group()


@app.command(
    epilog=examples("tidegate standalone up -d", "tidegate standalone up -d --no-example && eval $(tidegate standalone env)")
)
def up(
    context: typer.Context,
    *,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start in the background; return when all servers are ready.")
    ] = False,
    data: Data = DATA,
    example: Example = True,
    days: Days = 7,
    pace_s: Pace = 1.0,
) -> None:
    """Start everything, as `tidegate standalone` does. A standalone that runs goes on; `-d` waits for one that starts."""
    if not detach:
        serve(context, data=data, once=False, example=example, days=days, pace_s=pace_s)
    read_settings(context)
    from tidegate.daemon.standalone import background

    home = data.absolute()
    if background.runs_already(home):
        output.write(f"standalone runs already on {home}")
        return
    options = ("--data", str(home), "--example" if example else "--no-example", f"--days={days}", f"--pace={pace_s}")
    background.start(home, options, context.obj, output.write)
    of_data = "" if data == DATA else f" --data {shlex.quote(str(data))}"
    output.write(f"ready; `tidegate standalone down{of_data}` stops all servers")


@app.command(epilog=examples("tidegate standalone down"))
def down(*, data: Data = DATA) -> None:
    """Stop everything; the data stay. The command also ends what a standalone has left that was killed or did not start."""
    from tidegate.daemon.standalone import background, record
    from tidegate.daemon.standalone.jars import cache_of

    home = data.absolute()
    stopped = background.stop(home, output.say)
    if stopped:
        output.write(f"stopped; the data stay in {home}")
    else:
        output.write(record.no_standalone(home, cache_of(os.environ)))


@app.command(epilog=examples("tidegate standalone status", "tidegate standalone status --json | jq -r .web"))
def status(*, data: Data = DATA, json: Json = False) -> None:
    """Show the servers with their state, process and port. Exit code 1 unless all are ready."""
    from tidegate.daemon.standalone import record

    home = data.absolute()
    found = status_of(home, record.read(home))
    output.write_page(found, lambda: print_status(found), json=json)
    if not found.ready:
        raise typer.Exit(1)


@app.command(epilog=examples("eval $(tidegate standalone env)"))
def env(*, data: Data = DATA) -> None:
    """Print `export` lines with the addresses of the servers, for a shell."""
    from tidegate.daemon.standalone import background, record

    known = background.running(data.absolute())
    for name, value in environment(known.settings).items():
        output.write(f"export {name}={shlex.quote(value)}")
    for name in known.untold:
        output.say(record.untold_line(name))


@app.command(epilog=examples("tidegate standalone link"))
def link(context: typer.Context, *, data: Data = DATA, json: Json = False) -> None:
    """Print a new link that logs its first visitor in to the web page, within 15 minutes."""
    import anyio

    from tidegate.daemon.standalone import background
    from tidegate.daemon.standalone.command import another_link

    known = background.running(data.absolute())
    settings = read({**context.obj, **environment(known.settings)}, needs=("postgres_dsn",))
    made = anyio.run(another_link, known.web, settings)
    output.write_result({"link": made}, made, json=json)


@app.command(epilog=examples("tidegate standalone logs", "tidegate standalone logs -f daemon kafka"))
def logs(
    servers: Annotated[list[str] | None, typer.Argument(metavar="[SERVER]...", help="Only these servers. Default: all.")] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=10_000, help="How many last lines of each log.")] = 20,
    data: Data = DATA,
) -> None:
    """Print the logs of all servers, with the name of the server before each line."""
    from tidegate.daemon.standalone import log_file

    home, chosen = data.absolute(), servers or ()
    files = log_file.logs(home, chosen, log_file.NAMES if follow else ())
    width = max(map(len, chosen or log_file.NAMES))
    print_lines(log_file.last_lines(files, lines), width)
    if follow:
        print_lines(log_file.new_lines(home, chosen, files), width)
