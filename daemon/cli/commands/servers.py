"""The commands that run or prepare servers: standalone, daemon, migrate, version."""

import platform
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from tidegate.daemon.build import build
from tidegate.daemon.cli.command import Json
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings
from tidegate.daemon.settings import PREFIX, Settings, UnknownSettingError, read
from tidegate.schemas.error import RequestError
from tidegate.schemas.text import seconds

DATA = Path(".tidegate")
Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder of all data and logs.")]
Example = Annotated[bool, typer.Option("--example/--no-example", help="Run the example pipelines.")]
Days = Annotated[int, typer.Option("--days", min=1, max=365, help="How many days of example data arrive.")]
Pace = Annotated[float, typer.Option("--pace", min=0, help="Seconds between two days of example data.")]


def standalone(
    context: typer.Context,
    *,
    data: Data = DATA,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the example's first week; exit code 1 if a run failed.")
    ] = False,
    example: Example = True,
    days: Days = 7,
    pace_s: Pace = 1.0,
) -> None:
    """Start Postgres, Kafka, Spark Connect, a daemon and a web page on this machine, with example pipelines on real data.

    A Postgres, a Kafka and a DAG folder that the settings name are used instead of new ones. The example runs only in the DAG
    folder of the standalone. Ctrl-C stops everything and keeps the data.
    """
    if context.invoked_subcommand is None:
        if once and not example:
            ends = "it stops after the example, which --no-example leaves out; give one of the two"
            raise typer.BadParameter(ends, param_hint="--once")
        serve(context, data=data, once=once, example=example, days=days, pace_s=pace_s)
    # Options before the subcommand count for it.
    context.default_map = {context.invoked_subcommand: dict(context.params)}


def serve(context: typer.Context, *, data: Path, once: bool, example: bool, days: int, pace_s: float) -> NoReturn:
    """Run a standalone in the foreground until it ends."""
    settings = read_settings(context)
    try:
        from tidegate.daemon.standalone import command, stack
    except ModuleNotFoundError as error:
        raise RequestError(f"standalone needs the package {error.name}; run pip install 'tidegate[standalone]'") from error

    options = command.Options(data=data, once=once, example=example, days=days, pace_s=pace_s)
    if not context.obj.get(f"{PREFIX}DAGS_FOLDER"):
        settings = msgspec.structs.replace(settings, dags_folder=str(stack.own_dags(data.absolute())))
    raise typer.Exit(command.main(options, settings))


def daemon(
    context: typer.Context,
    *,
    run_duration: Annotated[
        float | None, typer.Option(parser=seconds, metavar="TIME", help="Stop after this time, such as 90s, 15m, 1h or 1h30m.")
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when no work is running, due or pending in the whole installation.")
    ] = False,
) -> None:
    """Run a daemon until SIGTERM, SIGINT or the end that an option sets.

    Any number of daemons share the work. A daemon waits for servers that are away. Under systemd, use Type=notify and
    WatchdogSec=. With both options the first condition stops it; exit code 1 if that was the time.
    """
    from tidegate.daemon import log, supervisor
    from tidegate.daemon.idle import Until

    settings = _settings_of_daemon(context)
    log.configure(settings.log_format)
    supervisor.main(settings, Until(run_duration, until_idle))


def _settings_of_daemon(context: typer.Context) -> Settings:
    """The settings. Where the database is of a newer version, settings that this one does not know are said and left out."""
    try:
        return read_settings(context, "postgres_dsn", "kafka_servers")
    except UnknownSettingError as error:
        known = {name: value for name, value in context.obj.items() if name not in error.names}
        settings = read(known, needs=("postgres_dsn", "kafka_servers"))
        import anyio

        from tidegate.daemon.postgres.migrate import is_newer

        if not anyio.run(is_newer, settings.postgres_dsn):
            raise
        output.say(f"{error}; it is left out, because the database is of a newer version")
        return settings


def web(context: typer.Context) -> None:
    """Serve the web pages and the HTTP API until SIGTERM or SIGINT.

    Any number of web processes may run beside each other. Requests fail while Postgres is away, and say so.
    """
    settings = read_settings(context, "postgres_dsn")
    from tidegate.daemon import log
    from tidegate.daemon.web import serve

    log.configure(settings.log_format)
    serve.main(settings)


def migrate(context: typer.Context, *, json: Json = False) -> None:
    """Update the database schema. Safe to run at any time, and several times at once."""
    settings = read_settings(context, "postgres_dsn")
    import anyio

    from tidegate.daemon.postgres import migrate

    applied = anyio.run(migrate.migrate, settings.postgres_dsn, output.say)
    sentence = f"applied {', '.join(applied)}" if applied else "the schema is up to date"
    output.write_result({"applied": applied}, sentence, json=json)


def version(*, json: Json = False) -> None:
    """Print the versions of Tidegate and Python."""
    versions = {"tidegate": build(), "python": platform.python_version()}
    output.write_result(versions, f"tidegate {versions['tidegate']} (Python {versions['python']})", json=json)


def print_version(wanted: bool) -> None:  # noqa: FBT001 - the callback of an option
    """For `--version`, which prints what `version` prints."""
    if wanted:
        version()
        raise typer.Exit
