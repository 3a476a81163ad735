"""`tidegate restore`: what a restored or emptied database lacks, and how daemons go on with it."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import Json, Yes, check_reason, command_group, examples, parse_time
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import read_settings, with_database
from tidegate.daemon.identity.local_user import current_user

if TYPE_CHECKING:
    from tidegate.daemon.restore.settle import ReadFrom

app = command_group()

Since = Annotated[
    datetime | None,
    typer.Option(metavar="TIME", parser=parse_time, help="Read dataset events from this time on; earlier ticks count as done."),
]
FromLatest = Annotated[bool, typer.Option(help="Read no dataset event of before now; ticks of before now count as done.")]
FromBackup = Annotated[bool, typer.Option(help="Read on where the database stands; an emptied one reads all that Kafka has.")]


@app.command(epilog=examples("tidegate restore check", "tidegate restore check --json | jq .runs"))
def check(context: typer.Context, *, json: Json = False) -> None:
    """Show what Kafka, the receipts and the spool of this host have that the database lacks. Changes nothing.

    Run it on each host for its spool. Exit code 1 if the database is held.
    """
    from tidegate.daemon.cli.pages.restore import print_check
    from tidegate.daemon.restore.check import read_check

    settings = read_settings(context, "postgres_dsn", "kafka_servers")
    found = with_database(context, lambda database: read_check(database, settings, output.say))
    output.write_page(found, lambda: print_check(found), json=json)
    if found.installation.held_since is not None:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        'tidegate restore settle --from-backup --because "restored from the dump of 02:00; work since then runs again"',
        'tidegate restore settle --from-latest --because "the work since the backup is done" --pause',
        'tidegate restore settle --since 2026-11-28T02:00Z --because "the database was emptied"',
        'tidegate restore settle --from-latest --copy --because "a copy for staging, with topics of its own"',
    )
)
def settle(
    context: typer.Context,
    *,
    since: Since = None,
    from_latest: FromLatest = False,
    from_backup: FromBackup = False,
    because: Annotated[str, typer.Option(metavar="TEXT", help="What was decided, and why; recorded in the audit log.")],
    copy: Annotated[
        bool,
        typer.Option(help="The installation that this is a copy of goes on: this one becomes another one, without its attempts."),
    ] = False,
    pause: Annotated[bool, typer.Option(help="Pause every DAG, to unpause them one by one.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let daemons work with a restored or emptied database. Say from where they read dataset events on.

    Attempts of runs that the database has do not run again: their ends are taken from the topic and from the spools of their
    hosts. Runs that it lacks are made again for the events and ticks that do not count as done, and their tasks run again.
    Exit code 1 if the database is not held.
    """
    from tidegate.daemon.restore.settle import settle

    check_reason("--because", because)
    read_from = _read_from(since, from_latest=from_latest, from_backup=from_backup)
    settings = read_settings(context, "postgres_dsn", "kafka_servers")
    if not (yes or json):
        typer.confirm(
            f"Release the database, and read dataset events from {read_from.at or f'the {read_from.what}'} on?", abort=True
        )
    user = current_user(settings)
    act = partial(settle, settings=settings, read_from=read_from, user=user, because=because, is_copy=copy, pause=pause)
    settled = with_database(context, lambda database: act(database, say=output.say))
    ends = f"{settled.ends} ends of attempts are known" if settled.ends else "no end of an attempt was missing"
    output.write_result(settled, f"restore {settled.restores} is settled; {ends}; daemons go on within seconds", json=json)


def _read_from(since: datetime | None, *, from_latest: bool, from_backup: bool) -> "ReadFrom":
    """Raises BadParameter unless exactly one is given."""
    from tidegate.daemon.restore.settle import ReadFrom

    if (since is not None) + from_latest + from_backup != 1:
        raise typer.BadParameter("say one of them", param_hint="--since, --from-latest or --from-backup")
    return ReadFrom("time", since) if since is not None else ReadFrom("latest" if from_latest else "backup")
