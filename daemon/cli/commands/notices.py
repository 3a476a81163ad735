"""`tidegate deadlines` and `tidegate notifications`: what was to have ended by when, and who was told what."""

import sys
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json, Limit, examples, noun
from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.notices import DEADLINE_TITLES, NOTIFICATION_TITLES, deadline_cells, notification_cells
from tidegate.daemon.cli.session import query, settings_of
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.notifications import NotificationRow, list_notifications, notification
from tidegate.schemas.receiver import FunctionReceiver, Receiver

deadlines = noun("List the deadlines of runs and tasks.")
notifications = noun("List who was told what became of runs and tasks.")

RUN_TITLES = ("DAG", "RUN")

Dag = Annotated[str | None, typer.Argument(metavar="DAG", help="Only those of this DAG.")]


@deadlines.command("list", epilog=examples("tidegate deadlines list --missed", "tidegate deadlines list daily_delays --json"))
def list_of_deadlines(
    context: typer.Context,
    dag_id: Dag = None,
    *,
    missed: Annotated[bool, typer.Option("--missed", help="Only those that were missed.")] = False,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List deadlines, those of the newest runs first."""

    async def read(db: Db) -> list[DeadlineRow]:
        found = await list_deadlines(db, dag_id=dag_id, missed=missed, limit=limit)
        if not found and dag_id is not None:
            await find_dag(db, dag_id)
        return found

    found = query(context, read)
    if json:
        output.write_json(found)
    else:
        rows = ((row.dag_id, row.run_id, *deadline_cells(row)) for row in found)
        output.table((*RUN_TITLES, *DEADLINE_TITLES), rows, empty="there are no such deadlines")


@notifications.command(
    "list", epilog=examples("tidegate notifications list --failed", "tidegate notifications list daily_delays --json")
)
def list_of_notifications(
    context: typer.Context,
    dag_id: Dag = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that were given up.")] = False,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List notifications, newest first. Of webhooks only the host is shown, unless in JSON."""

    async def read(db: Db) -> tuple[list[NotificationRow], datetime]:
        found = await list_notifications(db, dag_id=dag_id, failed=failed, limit=limit)
        if not found and dag_id is not None:
            await find_dag(db, dag_id)
        return found, db.now

    found, now = query(context, read)
    if json:
        output.write_json(found)
    else:
        rows = ((row.id, row.dag_id, row.run_id, *notification_cells(row, now)) for row in found)
        output.table(("ID", *RUN_TITLES, *NOTIFICATION_TITLES), rows, empty="there are no such notifications")


@notifications.command("logs", epilog=examples("tidegate notifications logs 12"))
def logs(
    context: typer.Context,
    id_: Annotated[int, typer.Argument(metavar="ID", help="As `tidegate notifications list` shows it.")],
) -> None:
    """Print the log of a function that was told, at its last try, on the host where it ran."""
    settings = settings_of(context)
    found = query(context, notification, id_)
    if found is None:
        raise RequestError(f"there is no notification {id_}; `tidegate notifications list` shows those there are")
    if not isinstance(msgspec.convert(found.receiver, Receiver), FunctionReceiver):
        raise RequestError(f"notification {id_} has no log: only functions have one")
    from tidegate.daemon.duties.receivers.function import submission_id
    from tidegate.daemon.settings import spool_root
    from tidegate.daemon.spark.spool import Spool

    spool = Spool(spool_root(settings), submission_id(found.delivery_id, found.tries))
    if not spool.log.exists():
        where = f"it ran on {found.host}" if found.host else "it has not been tried yet"
        raise RequestError(f"the log of notification {id_} is not on this host below {spool_root(settings)}: {where}")
    sys.stdout.flush()
    sys.stdout.buffer.write(spool.log.read_bytes())
    sys.stdout.buffer.flush()
