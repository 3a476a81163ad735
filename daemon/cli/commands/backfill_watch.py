"""Follows a backfill to its end: by the database, or by the server of `--server`."""

from typing import TYPE_CHECKING

import typer

from tidegate.daemon.cli.session import at, remote, with_database
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.state import BACKFILL_ENDED

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote
    from tidegate.daemon.postgres.database import Database


def watched(context: typer.Context, backfill_id: int) -> BackfillRow:
    """The backfill after its end."""
    from tidegate.daemon.backfills import get
    from tidegate.daemon.cli.pages.follow import follow_backfill

    async def work(database: "Database") -> BackfillRow:
        return await follow_backfill(database, await get(database, backfill_id))

    server = remote(context)
    return with_database(context, work) if server is None else watched_by(server, backfill_id)


def watched_by(server: "Remote", backfill_id: int) -> BackfillRow:
    """The backfill after its end, which the server tells."""
    from tidegate.daemon.cli.pages.follow import print_backfill
    from tidegate.daemon.read_model.backfill import BackfillPage

    path, printed = at("backfills", backfill_id), ""
    page = server.patient(path, BackfillPage)
    while True:
        printed = print_backfill(page.backfill, page.progress, printed)
        if page.backfill.state in BACKFILL_ENDED:
            return page.backfill
        page = server.polled(path, BackfillPage)
