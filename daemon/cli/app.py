"""`tidegate`: the tree of commands, and where every error ends."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from tidegate.daemon.cli.command import examples, show_help
from tidegate.daemon.cli.commands import (
    backfills,
    check,
    dags,
    datasets,
    dead_letters,
    losses,
    notices,
    pools,
    runs,
    servers,
    tasks,
    topics,
)
from tidegate.daemon.cli.failure import report
from tidegate.daemon.dagfiles.confine import refuse_inspection
from tidegate.daemon.settings import PREFIX

app = typer.Typer(add_completion=False, rich_markup_mode=None)
app.command(epilog=examples("tidegate standalone", "tidegate standalone --once --data /tmp/try"))(servers.standalone)
app.command(epilog=examples("tidegate daemon", "tidegate daemon --until-idle --run-duration 1h"))(servers.daemon)
app.command(epilog=examples("tidegate migrate"))(servers.migrate)
app.command(epilog=examples("tidegate check", "tidegate check dags/daily.py --json"))(check.check)
app.add_typer(dags.app, name="dags")
app.add_typer(runs.app, name="runs")
app.add_typer(tasks.app, name="tasks")
app.add_typer(backfills.app, name="backfills")
app.add_typer(pools.app, name="pools")
app.add_typer(datasets.app, name="datasets")
app.add_typer(notices.deadlines, name="deadlines")
app.add_typer(notices.notifications, name="notifications")
app.add_typer(topics.app, name="topics")
app.add_typer(dead_letters.app, name="deadletters")
app.add_typer(losses.app, name="losses")
app.command(epilog=examples("tidegate version"))(servers.version)


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "export TIDEGATE_POSTGRES_DSN=postgresql://tidegate@localhost:5432/tidegate",
        "tidegate dags list",
        "tidegate runs trigger daily_delays --wait",
    ),
)
def root(
    context: typer.Context,
    *,
    postgres_dsn: Annotated[str | None, typer.Option(metavar="DSN", help="Default: TIDEGATE_POSTGRES_DSN.")] = None,
    kafka_servers: Annotated[str | None, typer.Option(metavar="HOSTS", help="Default: TIDEGATE_KAFKA_SERVERS.")] = None,
    topic_prefix: Annotated[str | None, typer.Option(metavar="PREFIX", help="Default: TIDEGATE_TOPIC_PREFIX.")] = None,
    dags_folder: Annotated[str | None, typer.Option(metavar="DIR", help="Default: TIDEGATE_DAGS_FOLDER.")] = None,
) -> None:
    """Event-driven scheduling of Spark pipelines.

    Settings come from environment variables TIDEGATE_*; the options before the command override them.

    Exit codes: 0 success, 1 the command failed or its subject does not exist, 2 wrong usage or settings, 3 a server is away.
    """
    overrides = {
        "POSTGRES_DSN": postgres_dsn,
        "KAFKA_SERVERS": kafka_servers,
        "TOPIC_PREFIX": topic_prefix,
        "DAGS_FOLDER": dags_folder,
    }
    context.obj = {**os.environ, **{f"{PREFIX}{name}": value for name, value in overrides.items() if value is not None}}
    show_help(context)


def run(args: Sequence[str]) -> int:
    """Run one command; returns its exit code. Never raises: an error becomes one sentence on stderr."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("tidegate", list(args)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except BaseException as error:  # noqa: BLE001 - users never see a traceback
        return report(error)
    return 0


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The `tidegate` command. Its environment has secrets, which tasks and DAG files of the same user must not read."""
    refuse_inspection()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot encode a character shows a replacement instead of failing.
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] if args is None else args))
