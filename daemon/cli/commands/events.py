"""`tidegate datasets events`: what came of a dataset, and what became of it."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from tidegate.daemon.cli.command import Json, Limit
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query
from tidegate.schemas.queries import dataset_history
from tidegate.schemas.queries.dataset_history import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.timetable.month import begin_of

TITLES = ("EVENT", "OCCURRED", "SOURCE", "ID", "EXTRA", "DAG", "OUTCOME", "RUN OR REASON")


class DatasetEventRow(msgspec.Struct, frozen=True):
    """An event, and what became of it for each DAG that waited for its dataset."""

    event: EventRow
    outcomes: Sequence[OutcomeRow]


def events(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="The dataset.")],
    *,
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Only what its producer calls so.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List the newest events of a dataset, with what became of each for every DAG that waited for it."""

    async def read(db: Db) -> tuple[list[DatasetEventRow], int | None]:
        found = await dataset_history.events(db, uri, event_id, limit)
        outcomes = await dataset_history.outcomes(db, [event.number for event in found])
        return [DatasetEventRow(event, outcomes.get(event.number, ())) for event in found], await dataset_history.whole_since(db)

    found, whole_since = query(context, read)
    if json:
        output.write_json(found)
    else:
        output.table(TITLES, (row for listed in found for row in _rows(listed)), empty="there are no such events")
    if whole_since is not None and len(found) < limit:
        since = f"{begin_of(whole_since):%Y-%m-%d}"
        output.say(f"events that came before {since} are older than the retention, but for those that still count")


def _rows(listed: DatasetEventRow) -> Iterator[Sequence[output.Cell]]:
    event = listed.event
    cells = (event.number, event.occurred_at, event.source, event.id, output.compact(event.extra))
    for outcome in listed.outcomes:
        yield (*cells, outcome.dag_id, outcome.outcome, outcome.run_id or outcome.reason)
    if not listed.outcomes:
        yield (*cells, None, "nobody waited", None)
