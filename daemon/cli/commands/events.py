"""`tidegate datasets events`: what came of a dataset, and what became of it."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json, Limit
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query
from tidegate.schemas.queries import happened
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.happened import EventRow, FateRow
from tidegate.schemas.timetable.month import begin_of

TITLES = ("EVENT", "OCCURRED", "SOURCE", "ID", "EXTRA", "DAG", "FATE", "RUN OR REASON")


class Happened(msgspec.Struct, frozen=True):
    """An event, and what became of it for each DAG that waited for its dataset."""

    event: EventRow
    fates: Sequence[FateRow]


def events(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="The dataset.")],
    *,
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Only what its producer calls so.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List the newest events of a dataset, with what became of each for every DAG that waited for it."""

    async def read(db: Db) -> tuple[list[Happened], int | None]:
        found = await happened.events(db, uri, event_id, limit)
        fates = await happened.fates(db, [event.number for event in found])
        return [Happened(event, fates.get(event.number, ())) for event in found], await happened.whole_since(db)

    found, whole_since = query(context, read)
    if json:
        output.write_json(found)
    else:
        output.table(TITLES, (row for each in found for row in _rows(each)), empty="there are no such events")
    if whole_since is not None and len(found) < limit:
        since = f"{begin_of(whole_since):%Y-%m-%d}"
        output.say(f"events that came before {since} are older than the retention, but for those that still count")


def _rows(happened: Happened) -> Iterator[Sequence[output.Cell]]:
    event = happened.event
    cells = (event.number, event.occurred_at, event.source, event.id, output.compact(event.extra))
    for fate in happened.fates:
        yield (*cells, fate.dag_id, fate.fate, fate.run_id or fate.reason)
    if not happened.fates:
        yield (*cells, None, "nobody waited", None)
