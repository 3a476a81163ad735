"""`tidegate datasets`: list datasets and their events, publish updates, audit the event ledger."""

import sys
from contextlib import suppress
from typing import Annotated

import anyio
import typer

from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.cli.command import MAX_ID, Json, Limit, command_group, examples, parse_json_object
from tidegate.daemon.cli.completion import finds_hosts
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.datasets import print_audit, print_events, print_life
from tidegate.daemon.cli.pages.lists import DATASETS, print_list
from tidegate.daemon.cli.session import at, listed, query, read_settings, remote, shown, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.datasets import (
    EventOutcomes,
    Retention,
    ignored_text,
    read_events,
    read_retention,
    unawaited_text,
)
from tidegate.daemon.read_model.event import EventLife, read_life
from tidegate.daemon.settings import Settings
from tidegate.daemon.terminal import printable
from tidegate.schemas.error import TidegateError
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import DatasetRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import EventId

app = command_group()

SOURCE = "tidegate-cli"
ASK_S = 2.0

Uri = Annotated[str, typer.Argument(metavar="URI", help="The URI of the dataset.")]


@app.command("list", epilog=examples("tidegate datasets list", "tidegate datasets list lake://"))
def list_(
    context: typer.Context,
    prefix: Annotated[str | None, typer.Argument(metavar="PREFIX", help="Only URIs that begin with this text.")] = None,
    *,
    limit: Limit = 1000,
    json: Json = False,
) -> None:
    """List datasets by URI. LAST EVENT is the arrival of the last event, whatever time the event is about.

    EVERY is the usual interval. AGE says if the next event is late.
    """

    async def read(db: Db) -> list[DatasetRow]:
        return await datasets.list_datasets(db, prefix, limit)

    rows, now = listed(context, "/datasets", DatasetRow, read, limit, prefix=prefix)
    print_list(DATASETS, rows := list(rows), now, json=json)
    for row in rows:
        if row.ignored_fields:
            output.say(f"{row.uri}: {ignored_text(row.ignored_fields)}")


@app.command(
    epilog=examples("tidegate datasets events lake://flights", "tidegate datasets events lake://flights --event-id 2013-01-01")
)
def events(
    context: typer.Context,
    uri: Uri,
    *,
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Only events with this id of their producer.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List the newest events of a dataset, with the outcome of each for every subscribed DAG: pending, consumed or discarded."""

    async def read(db: Db) -> tuple[list[EventOutcomes], Retention]:
        return await read_events(db, uri, event_id, limit=limit), await read_retention(db)

    server = remote(context)
    if server is None:
        found, retention = query(context, read)
    else:
        found = server.rows("/events", EventOutcomes, limit, {"uri": uri, "event_id": event_id})
        retention = server.read("/events/retention", Retention)
    output.write_page(found, lambda: print_events(found), json=json)
    if retention.whole_since is not None and len(found) < limit:
        output.say(f"events before {retention.whole_since} are older than the retention; only those still needed are kept")


@app.command(epilog=examples("tidegate datasets event 2611000000000001"))
def event(
    context: typer.Context,
    number: Annotated[
        int, typer.Argument(metavar="EVENT", min=1, max=MAX_ID, help="The number, as `tidegate datasets events` shows it.")
    ],
    *,
    json: Json = False,
) -> None:
    """Show the whole life of an event: its outcome for each DAG, the runs that consumed it, and what followed from them."""

    async def read(db: Db) -> EventLife:
        return await read_life(db, number)

    life, _ = shown(context, at("events", number), EventLife, read)
    output.write_page(life, lambda: print_life(life), json=json)


@app.command(epilog=examples("tidegate datasets audit", "tidegate datasets audit --json | jq .findings"))
def audit(context: typer.Context, *, limit: Limit = 1000, json: Json = False) -> None:
    """Check that each event is exactly once pending, consumed or discarded for each DAG that was subscribed when it came.

    Only reads, and runs beside working daemons. --limit is the number of findings shown. Exit code 1 if anything is wrong.
    """
    report = with_database(context, lambda database: audit_ledger(database.autocommit, limit))
    output.write_page(report, lambda: print_audit(report), json=json)
    if report.wrong:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        """tidegate datasets publish lake://flights --extra '{"day": "2013-01-01"}'""",
        "tidegate datasets publish lake://flights --event-id 2013-01-01   # the same id again has no effect",
    )
)
def publish(
    context: typer.Context,
    uri: Uri,
    *,
    extra: Annotated[str, typer.Option(metavar="JSON", help="A JSON object for filters and `run.events`.")] = "{}",
    event_id: Annotated[str | None, typer.Option(metavar="ID", help="Default: a new id. A known one has no effect.")] = None,
    source: Annotated[str, typer.Option(metavar="NAME", help="The program; source and id identify the event.")] = SOURCE,
    json: Json = False,
) -> None:
    """Publish that a dataset has new data; returns when Kafka has stored the event.

    If Postgres is set and no DAG waits for the dataset, stderr says so, with the nearest names and how many DAG files are broken.
    """
    from tidegate.events import Publisher

    event_extra = parse_json_object("--extra", extra)
    settings = read_settings(context, "kafka_servers")

    async def send() -> EventId:
        async with Publisher(
            settings.kafka_servers, source=source, topic_prefix=settings.topic_prefix, security=settings.kafka_security
        ) as publisher:
            return await publisher.dataset_updated(uri, event_extra, event_id=event_id)

    identity = anyio.run(send)
    document = {"uri": uri, "source": identity.source, "id": identity.id}
    output.write_result(document, f"published {uri} as {printable(identity.id)}", json=json)
    sys.stdout.flush()  # what follows may take a moment
    if settings.postgres_dsn and finds_hosts(settings.postgres_dsn, ASK_S):
        _say_if_unawaited(settings, uri)


def _say_if_unawaited(settings: Settings, uri: str) -> None:
    """The event is published all the same, so that a Postgres that is away is no error."""
    import asyncpg

    from tidegate.daemon.cli.postgres import open_database

    async def read() -> str:
        with anyio.move_on_after(ASK_S):
            async with open_database(settings, current_user(settings)) as database:
                return await database.run(unawaited_text, uri)
        return ""

    with suppress(TidegateError, OSError, asyncpg.PostgresError):
        if told := anyio.run(read):
            output.say(told)
