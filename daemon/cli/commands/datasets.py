"""`tidegate datasets`: list datasets and their events, publish updates, audit the event ledger."""

from typing import Annotated

import anyio
import typer

from tidegate.daemon.cli.command import Json, Limit, command_group, examples, parse_json_object
from tidegate.daemon.cli.commands.audit import audit
from tidegate.daemon.cli.commands.events import events
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import DATASETS, print_list
from tidegate.daemon.cli.session import query_at, read_settings
from tidegate.schemas.queries import datasets
from tidegate.schemas.wire.event import EventId

app = command_group("List datasets and their events, publish updates, audit what became of the events.")
app.command(
    "events",
    epilog=examples("tidegate datasets events lake://flights", "tidegate datasets events lake://flights --event-id 2013-01-01"),
)(events)
app.command("audit", epilog=examples("tidegate datasets audit", "tidegate datasets audit --json | jq .findings"))(audit)

SOURCE = "tidegate-cli"


@app.command("list", epilog=examples("tidegate datasets list", "tidegate datasets list lake://"))
def list_(
    context: typer.Context,
    prefix: Annotated[str | None, typer.Argument(metavar="PREFIX", help="Only URIs that begin with this text.")] = None,
    *,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List datasets by URI."""
    print_list(DATASETS, *query_at(context, datasets.list_datasets, prefix, limit), json=json)


@app.command(
    epilog=examples(
        """tidegate datasets publish lake://flights --extra '{"day": "2013-01-01"}'""",
        "tidegate datasets publish lake://flights --event-id 2013-01-01   # the same id again has no effect",
    )
)
def publish(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="The URI of the dataset.")],
    *,
    extra: Annotated[str, typer.Option(metavar="JSON", help="A JSON object for filters and `run.events`.")] = "{}",
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Default: a new id. A known one has no effect.")] = None,
    source: Annotated[str, typer.Option(metavar="NAME", help="The program; source and id identify the event.")] = SOURCE,
    json: Json = False,
) -> None:
    """Publish that a dataset has new data; returns when Kafka has stored the event."""
    from tidegate.events import Publisher

    event_extra = parse_json_object("--extra", extra)
    settings = read_settings(context, "kafka_servers")

    async def send() -> EventId:
        async with Publisher(settings.kafka_servers, source=source, topic_prefix=settings.topic_prefix) as publisher:
            return await publisher.dataset_updated(uri, event_extra, event_id=event_id)

    identity = anyio.run(send)
    document = {"uri": uri, "source": identity.source, "id": identity.id}
    output.write_result(document, f"published {uri} as {output.printable(identity.id)}", json=json)
