"""`tidegate datasets events`: the events of a dataset, and their outcomes."""

from typing import Annotated

import typer

from tidegate.daemon.cli.command import Json, Limit
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.events import EventOutcomes, print_events
from tidegate.daemon.cli.session import query
from tidegate.schemas.queries import dataset_history
from tidegate.schemas.queries.db import Db
from tidegate.schemas.timetable.month import begin_of


def events(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="The URI of the dataset.")],
    *,
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Only events with this id of their producer.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List the newest events of a dataset, with the outcome of each for every subscribed DAG: pending, consumed or discarded."""

    async def read(db: Db) -> tuple[list[EventOutcomes], int | None]:
        found = await dataset_history.events(db, uri, event_id, limit)
        outcomes = await dataset_history.outcomes(db, [event.number for event in found])
        return [EventOutcomes(event, outcomes.get(event.number, ())) for event in found], await dataset_history.whole_since(db)

    found, whole_since = query(context, read)
    if json:
        output.write_json(found)
    else:
        print_events(found)
    if whole_since is not None and len(found) < limit:
        since = f"{begin_of(whole_since):%Y-%m-%d}"
        output.say(f"events before {since} are older than the retention; only those still needed are kept")
