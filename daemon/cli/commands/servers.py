"""The commands that run, or prepare, the daemon: standalone, daemon, migrate, version."""

import platform
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import anyio
import typer

from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import settings_of
from tidegate.schemas.error import RequestError
from tidegate.schemas.timetable.text import seconds


def standalone(
    context: typer.Context,
    *,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is kept.")] = Path(".tidegate"),
    once: Annotated[
        bool, typer.Option("--once", help="End after the example's first week; with 1 unless all went well.")
    ] = False,
    example: Annotated[bool, typer.Option(help="Run the example pipelines.")] = True,
    days: Annotated[int, typer.Option(min=1, max=365, help="How many days of the example's data arrive.")] = 7,
    pace_s: Annotated[float, typer.Option("--pace", min=0, help="Seconds from one of these days to the next.")] = 1.0,
) -> None:
    """Start everything that is needed on this machine.

    That is Postgres, Kafka, a Spark Connect server, a daemon, and example pipelines on real data. A Postgres or a Kafka that
    the settings name is used, not started. Ctrl-C stops everything; the data stays.
    """
    settings = settings_of(context)
    try:
        from tidegate.daemon.standalone import command
    except ModuleNotFoundError as error:
        raise RequestError(f"standalone needs the package {error.name}: pip install 'tidegate[standalone]'") from error

    options = command.Options(data=data, once=once, example=example, days=days, pace_s=pace_s)
    raise typer.Exit(command.main(options, settings))


def daemon(
    context: typer.Context,
    *,
    run_duration: Annotated[
        float | None, typer.Option(parser=seconds, metavar="TIME", help="Stop after so long, such as 90s, 15m, 1h or 1h30m.")
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when nothing is running, due or pending in the whole installation.")
    ] = False,
) -> None:
    """Run a daemon until SIGTERM or SIGINT, or for as long as the options say.

    Any number of them share the work. Servers that are away are waited for. Under systemd: Type=notify, WatchdogSec=. With both
    options whichever comes first stops it; with 1 if the time was over before the work was done.
    """
    settings = settings_of(context, "postgres_dsn", "kafka_servers")
    from tidegate.daemon import log, supervisor
    from tidegate.daemon.idle import Until

    log.configure(settings.log_format)
    supervisor.main(settings, Until(run_duration, until_idle))


def migrate(context: typer.Context, *, json: Json = False) -> None:
    """Bring the database's schema up to date. Safe to run at any time, by several at once."""
    settings = settings_of(context, "postgres_dsn")
    from tidegate.daemon.postgres import migrate

    applied = anyio.run(migrate.migrate, settings.postgres_dsn)
    if json:
        output.write_json({"applied": applied})
    elif applied:
        output.write(f"applied {', '.join(applied)}")
    else:
        output.write("the schema is up to date")


def version(*, json: Json = False) -> None:
    """Print the version."""
    known = {"tidegate": version_of("tidegate"), "python": platform.python_version()}
    if json:
        output.write_json(known)
    else:
        output.write(f"tidegate {known['tidegate']} (Python {known['python']})")
