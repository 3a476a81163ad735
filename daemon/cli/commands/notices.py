"""`tidegate deadlines` and `tidegate notifications`."""

import os
from typing import Annotated

import typer

from tidegate.daemon.cli.command import MAX_ID, Json, Limit, OnlyDag, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import DEADLINES, NOTIFICATIONS, print_list
from tidegate.daemon.cli.session import listed, query, read_settings
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow, list_deadlines
from tidegate.schemas.queries.notifications import NotificationRow, list_notifications, notification
from tidegate.schemas.receiver import FunctionReceiver

deadlines = command_group()
notifications = command_group()


@deadlines.command("list", epilog=examples("tidegate deadlines list --missed", "tidegate deadlines list daily_delays --json"))
def list_of_deadlines(
    context: typer.Context,
    dag_id: OnlyDag = None,
    *,
    missed: Annotated[bool, typer.Option("--missed", help="Only missed deadlines.")] = False,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List deadlines of runs and tasks, newest runs first."""

    async def read(db: Db) -> list[DeadlineRow]:
        return await list_of_dag(db, list_deadlines, dag_id, missed=missed, limit=limit)

    found, now = listed(context, "/deadlines", DeadlineRow, read, limit, dag_id=dag_id, missed=missed)
    print_list(DEADLINES, found, now, json=json)


@notifications.command(
    "list", epilog=examples("tidegate notifications list --failed", "tidegate notifications list daily_delays --json")
)
def list_of_notifications(
    context: typer.Context,
    dag_id: OnlyDag = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only notifications that failed for good.")] = False,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List notifications, newest first. The table shows only the host of a webhook, JSON its whole URL."""

    async def read(db: Db) -> list[NotificationRow]:
        return await list_of_dag(db, list_notifications, dag_id, failed=failed, limit=limit)

    found, now = listed(context, "/notifications", NotificationRow, read, limit, dag_id=dag_id, failed=failed)
    print_list(NOTIFICATIONS, found, now, json=json)


@notifications.command("logs", epilog=examples("tidegate notifications logs 12"))
def logs(
    context: typer.Context,
    id_: Annotated[
        int, typer.Argument(metavar="ID", min=1, max=MAX_ID, help="The id, as `tidegate notifications list` shows it.")
    ],
) -> None:
    """Print the log of a callback function's last try. Only on the host where it ran."""
    settings = read_settings(context)
    found = query(context, notification, id_)
    if found is None:
        raise RequestError(f"there is no notification {id_}; `tidegate notifications list` shows all")
    from tidegate.daemon.duties.receivers.delivery import stored_receiver

    if not isinstance(stored_receiver(found.receiver), FunctionReceiver):
        raise RequestError(f"notification {id_} has no log: only callback functions have one")
    from tidegate.daemon.duties.receivers.function import submission_id
    from tidegate.daemon.settings import spool_root
    from tidegate.daemon.spark.spool import Spool

    spool = Spool(spool_root(settings), submission_id(found.delivery_id, found.tries))
    if not os.path.lexists(spool.log):
        where = f"it ran on {found.host}" if found.host else "it has not been tried yet"
        raise RequestError(f"the log of notification {id_} is not on this host below {spool_root(settings)}: {where}")
    out, offset = output.ByteWriter(), 0
    while (chunk := spool.read_log(offset)).content:
        out.write(chunk.content)
        offset = chunk.next_offset
