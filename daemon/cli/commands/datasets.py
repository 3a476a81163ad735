"""`tidegate datasets`: what DAGs wait for and make; say that one was updated; audit what became of it."""

from datetime import datetime
from typing import Annotated

import anyio
import typer

from tidegate.daemon.cli.command import Json, Limit, examples, json_object, noun
from tidegate.daemon.cli.commands.audit import audit
from tidegate.daemon.cli.commands.events import events
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query_at, settings_of
from tidegate.schemas.queries import datasets
from tidegate.schemas.timetable.text import age
from tidegate.schemas.wire.event import EventId

app = noun("List datasets and their events, publish their updates, audit what became of them.")
app.command(
    "events",
    epilog=examples("tidegate datasets events lake://flights", "tidegate datasets events lake://flights --event-id 2013-01-01"),
)(events)
app.command("audit", epilog=examples("tidegate datasets audit", "tidegate datasets audit --json | jq .findings"))(audit)

SOURCE = "tidegate-cli"
TITLES = ("DATASET", "CONSUMERS", "PRODUCERS", "EVENTS", "LAST EVENT", "AGE")


@app.command("list", epilog=examples("tidegate datasets list", "tidegate datasets list lake://"))
def list_(
    context: typer.Context,
    prefix: Annotated[str | None, typer.Argument(metavar="PREFIX", help="Only URIs that begin so.")] = None,
    *,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List the datasets, by URI."""
    found, now = query_at(context, datasets.list_datasets, prefix, limit)
    if json:
        output.write_json(found)
        return
    output.table(TITLES, (_cells(row, now) for row in found), empty="there are no such datasets")


@app.command(
    epilog=examples(
        """tidegate datasets publish lake://flights --extra '{"day": "2013-01-01"}'""",
        "tidegate datasets publish lake://flights --event-id 2013-01-01   # the same id again has no effect",
    )
)
def publish(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="The dataset that has new data.")],
    *,
    extra: Annotated[str, typer.Option(metavar="JSON", help="An object that the runs find in their `run.events`.")] = "{}",
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="What makes it the same event; else a new one.")] = None,
    source: Annotated[str, typer.Option(metavar="NAME", help="Who publishes; (source, id) is the event's identity.")] = SOURCE,
    json: Json = False,
) -> None:
    """Tell Kafka that a dataset has new data, and wait until it is stored there."""
    from tidegate.events import Publisher

    facts = json_object("--extra", extra)
    settings = settings_of(context, "kafka_servers")

    async def send() -> EventId:
        async with Publisher(settings.kafka_servers, source=source, topic_prefix=settings.topic_prefix) as publisher:
            return await publisher.dataset_updated(uri, facts, event_id=event_id)

    identity = anyio.run(send)
    if json:
        output.write_json({"uri": uri, "source": identity.source, "id": identity.id})
    else:
        output.write(f"published {uri} as {output.printable(identity.id)}")


def _cells(row: datasets.DatasetRow, now: datetime) -> tuple[output.Cell, ...]:
    age_of_last = row.last_event_at and age(row.last_event_at, now)
    return row.uri, row.consumers, row.producers, row.events, row.last_event_at, age_of_last
