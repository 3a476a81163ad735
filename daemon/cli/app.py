"""`tidegate`: the tree of commands, and where every error ends."""

import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tidegate.daemon.cli.command import examples, show_help
from tidegate.daemon.cli.commands import check, doctor, import_airflow, servers
from tidegate.daemon.cli.failure import report
from tidegate.daemon.cli.first_process import leave_to_parent
from tidegate.daemon.cli.group import imported_group
from tidegate.daemon.cli.pages import output
from tidegate.daemon.settings import PREFIX

app = typer.Typer(rich_markup_mode=None)


def _add_group(name: str, help_: str, group: type[TyperGroup]) -> None:
    """The commands of one noun. Without a command it prints its help."""
    app.add_typer(
        typer.Typer(rich_markup_mode=None), name=name, help=help_, cls=group, callback=show_help, invoke_without_command=True
    )


app.add_typer(
    typer.Typer(rich_markup_mode=None),
    name="standalone",
    cls=imported_group("standalone"),
    callback=servers.standalone,
    invoke_without_command=True,
    epilog=examples("tidegate standalone", "tidegate standalone --once --data /tmp/try", "tidegate standalone up -d"),
)
app.command(epilog=examples("tidegate daemon", "tidegate daemon --until-idle --run-duration 1h"))(servers.daemon)
app.command(epilog=examples("tidegate web", "TIDEGATE_WEB_PORT=8080 tidegate web"))(servers.web)
app.command(epilog=examples("tidegate migrate"))(servers.migrate)
app.command(epilog=examples("tidegate doctor", "tidegate doctor --json | jq .problems"))(doctor.doctor)
app.command(epilog=examples("tidegate check", "tidegate check dags/daily.py --json", "tidegate check --sandbox"))(check.check)
app.command("import-airflow", epilog=import_airflow.EXAMPLES)(import_airflow.import_airflow)
_add_group("dags", "List, show, pause and delete DAGs; print their next runs, and why one has no run.", imported_group("dags"))
_add_group("runs", "List, show, explain, trigger, clear, cancel and mark runs.", imported_group("runs"))
_add_group("tasks", "List, explain, clear and mark tasks; read their logs and results.", imported_group("tasks"))
_add_group(
    "backfills",
    "Create, follow, pause, change, cancel and retry backfills: runs of a DAG for past dates.",
    imported_group("backfills"),
)
_add_group("pools", "List, set and delete pools, whose slots limit active tasks.", imported_group("pools"))
_add_group(
    "datasets", "List datasets and their events, publish updates, audit what became of the events.", imported_group("datasets")
)
_add_group("deadlines", "List the deadlines of runs and tasks.", imported_group("notices", "deadlines"))
_add_group(
    "notifications",
    "List notifications about runs and tasks; print the logs of callback functions.",
    imported_group("notices", "notifications"),
)
_add_group("daemons", "List the daemons that are alive, and what each of them does.", imported_group("daemons"))
_add_group(
    "topics",
    "Create the Kafka topics, print their schemas, list partitions and ignored records, resume halted partitions.",
    imported_group("topics"),
)
_add_group(
    "deadletters", "List and show records that could not be processed; replay or discard them.", imported_group("dead_letters")
)
_add_group("tokens", "Create, list and revoke the tokens of the API and the web pages.", imported_group("tokens"))
_add_group("losses", "List acknowledged commits that Postgres has lost; settle them.", imported_group("losses"))
_add_group("restore", "Show what a restored or emptied database lacks; let daemons go on with it.", imported_group("restore"))
_add_group("audit", "List who did what; check that no entry of the audit log was changed.", imported_group("audit"))
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
    _version: Annotated[
        bool, typer.Option("--version", callback=servers.print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Call this `tidegate web` with TIDEGATE_TOKEN. Default: TIDEGATE_SERVER.")
    ] = None,
) -> None:
    """Event-driven scheduling of Spark pipelines.

    Settings come from environment variables TIDEGATE_*; the options before the command override them.

    Exit codes: 0 success, 1 the command failed, its subject does not exist, or it found something wrong, 2 wrong usage or
    settings, 3 a server is away, 4 `dags plan` found changes.
    """
    overrides = {
        "POSTGRES_DSN": postgres_dsn,
        "KAFKA_SERVERS": kafka_servers,
        "TOPIC_PREFIX": topic_prefix,
        "DAGS_FOLDER": dags_folder,
        "SERVER": server,
    }
    context.obj = {**os.environ, **{f"{PREFIX}{name}": value for name, value in overrides.items() if value is not None}}
    show_help(context)


@cache
def tree() -> Any:
    """All commands, built once: a process of tests runs hundreds."""
    return typer.main.get_command(app)


def run(args: Sequence[str]) -> int:
    """Run one command; returns its exit code. Never raises: an error becomes one sentence on stderr."""
    command = tree()
    try:
        _check_encoding(args)
        # Answers a shell that completes a command line, and exits.
        command._main_shell_completion({}, "tidegate")
        with command.make_context("tidegate", list(args)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:  # from the completion of a shell
        return ended.code if isinstance(ended.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - users never see a traceback
        return report(error)
    return 0


def _check_encoding(args: Sequence[str]) -> None:
    """Raises UnicodeEncodeError for bytes that are not UTF-8, which Python reads as lone surrogates: no server stores them."""
    for text in args:
        text.encode()


def _reset_signals() -> None:
    """What a process inherits: where SIGCHLD is ignored no exit code can be read, and what is blocked stops no program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The `tidegate` command."""
    output.open_streams()
    _reset_signals()
    leave_to_parent()
    sys.exit(run(sys.argv[1:] if args is None else args))
