"""`tidegate topics`: the Kafka topics."""

from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import anyio
import msgspec
import typer

from tidegate.daemon.cli.command import MAX_ID, Json, check_reason, command_group, examples
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.lists import HALTED_PARTITIONS, IGNORED_RECORDS, PARTITIONS, print_list
from tidegate.daemon.cli.session import changed, listed, read_settings, remote, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.schemas.queries import inbox, leases
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.wire import contract
from tidegate.schemas.wire.event import DATA, Kind, type_of

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

app = command_group()

TITLES = ("TOPIC", "PARTITIONS", "DONE")
BACKWARDS = (
    "from {} back to {}: add --new-topic if the topic was created again, so that records without an id count as new,"
    " or --same-topic if the topic lost its end, so that records read before have no effect twice"
)


@app.command(epilog=examples("tidegate topics create", "tidegate topics create --partitions 24 --replication 3 --min-in-sync 2"))
def create(
    context: typer.Context,
    *,
    partitions: Annotated[int | None, typer.Option(min=1, help="Else TIDEGATE_TOPIC_PARTITIONS.")] = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Else TIDEGATE_TOPIC_REPLICATION.")] = None,
    min_in_sync: Annotated[int | None, typer.Option(min=1, help="Else TIDEGATE_TOPIC_MIN_IN_SYNC.")] = None,
    json: Json = False,
) -> None:
    """Create the missing topics; existing topics are left unchanged.

    --replication is the number of replicas. --min-in-sync of them must have a record before it counts; with three or more
    replicas the default is two, so that one broker may be away or lost without loss of records.
    """
    from tidegate.events import topics

    settings = read_settings(context, "kafka_servers")
    count = partitions or settings.topic_partitions
    replicas = replication or settings.topic_replication
    in_sync = min_in_sync or settings.topic_min_in_sync
    create = partial(topics.create, min_in_sync=in_sync, security=settings.kafka_security)
    created = anyio.run(create, settings.kafka_servers, settings.topic_prefix, count, replicas)
    rows = ((topic.topic, topic.partitions, "existed" if topic.existed else "created") for topic in created)
    output.write_page(created, lambda: output.table(TITLES, rows, empty="no topics"), json=json)
    for topic in created:
        if topic.differs:
            output.say(
                f"{topic.topic} has {topic.partitions} partitions, not {topic.wanted}; left unchanged, because keys would move"
            )


@app.command(epilog=examples("tidegate topics schema", "tidegate topics schema dag-run-state > dag-run-state.v1.schema.json"))
def schema(
    kind: Annotated[Kind | None, typer.Argument(metavar="KIND", help="The kind of event. Default: all, by type.")] = None,
) -> None:
    """Print the JSON Schema of a kind of event. Needs no server."""
    if kind is None:
        output.write_json({type_of(kind): contract.json_schema(kind) for kind in DATA})
    elif kind in DATA:
        output.write_json(contract.json_schema(kind))
    else:
        raise typer.BadParameter("a dead letter is an unchanged record of any kind, and has no schema", param_hint="KIND")


@app.command(epilog=examples("tidegate topics asyncapi > asyncapi.json"))
def asyncapi(context: typer.Context) -> None:
    """Print an AsyncAPI 3 document of all topics: names, keys, headers and schemas. Needs no server."""
    output.write_json(contract.asyncapi(read_settings(context).topic, version("tidegate")))


@app.command(epilog=examples("tidegate topics ignored"))
def ignored(context: typer.Context, *, json: Json = False) -> None:
    """Count the records that were ignored because they announce no new data, such as OpenLineage's START events."""
    print_list(IGNORED_RECORDS, *listed(context, "/topics/ignored", IgnoredRow, inbox.ignored), json=json)


@app.command(epilog=examples("tidegate topics partitions", "tidegate topics partitions --json | jq '.[] | select(.lag > 0)'"))
def partitions(context: typer.Context, *, json: Json = False) -> None:
    """List the partitions that daemons read: the daemon of each, its next offset, the range of its log, and its lag.

    Lag counts the offsets that are not read. Producers that use transactions leave markers, which count as well.
    """
    from tidegate.daemon.intake.lag import PartitionRow, read_partitions

    server = remote(context)
    if server is not None:
        rows = server.rows("/topics/partitions", PartitionRow, None, {})
    else:
        settings = read_settings(context, "postgres_dsn", "kafka_servers")
        rows = with_database(context, lambda database: read_partitions(database, settings))
    print_list(PARTITIONS, rows, datetime.now(UTC), json=json)


@app.command(epilog=examples("tidegate topics halted"))
def halted(context: typer.Context, *, json: Json = False) -> None:
    """List halted partitions: their next offset is outside their log, or the records there cannot be decoded."""
    print_list(HALTED_PARTITIONS, *listed(context, "/topics/halted", Incident, leases.incidents), json=json)


@app.command(
    epilog=examples(
        "tidegate topics resume tidegate.dataset-updated/3 --at earliest   # what the log still has",
        "tidegate topics resume tidegate.dataset-updated/3 --at earliest --new-topic",
        "tidegate topics resume tidegate.dataset-updated/3 --at 4711",
    )
)
def resume(
    context: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="The partition, as `tidegate topics halted` shows it.")],
    *,
    at: Annotated[str, typer.Option(metavar="earliest|latest|OFFSET", help="The offset to continue at.")],
    new_topic: Annotated[
        bool | None,
        typer.Option("--new-topic/--same-topic", help="For an earlier offset: the topic was created again, or it lost its end."),
    ] = None,
    json: Json = False,
) -> None:
    """Continue a halted partition at another offset, and print what is skipped or repeated. The user is recorded."""
    from tidegate.daemon.intake import resumption
    from tidegate.daemon.intake.resumption import Resumed

    async def work(database: "Database") -> Resumed:
        settings = read_settings(context, "postgres_dsn", "kafka_servers")
        halted = await resumption.find_halted(database, settings, partition)
        try:
            return await resumption.resume(database, current_user(settings), halted, at, is_new=new_topic)
        except resumption.BackwardsError as error:
            raise typer.BadParameter(BACKWARDS.format(error.stood_at, error.offset), param_hint="--at") from error
        except resumption.OffsetError as error:
            raise typer.BadParameter(str(error), param_hint="--at") from error

    body = {"partition": partition, "at": at, "new_topic": new_topic}
    resumed = changed(context, ("POST", "/topics/resume"), Resumed, work, body)
    says = resumption.consequence(resumed.stood_at, resumed.next_offset, is_new=bool(new_topic))
    output.write_result(msgspec.structs.asdict(resumed), f"{partition} continues at {resumed.next_offset}; {says}", json=json)


@app.command(
    epilog=examples('tidegate topics skip tidegate.dataset-updated/3 --offset 4711 --because "its extra has a million keys"')
)
def skip(
    context: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="The partition, as `tidegate doctor` names it.")],
    *,
    offset: Annotated[int, typer.Option(metavar="OFFSET", min=0, max=MAX_ID, help="The offset of the record, as named there.")],
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why it is stepped over; recorded with it.")],
    json: Json = False,
) -> None:
    """Make a record that is too slow for Postgres a dead letter, so that its partition goes on behind it.

    Only a record that a daemon waits with, and each once; `deadletters replay` sends it again. The user and the reason are
    recorded. Exit code 1 if no daemon waits with it.
    """
    from tidegate.daemon.intake.stepping_over import SteppedOver, step_over

    check_reason("--because", because)

    async def work(database: "Database") -> SteppedOver:
        settings = read_settings(context, "postgres_dsn", "kafka_servers")
        return await step_over(database, settings, current_user(settings), partition, offset, because)

    body = {"partition": partition, "offset": offset, "because": because}
    done = changed(context, ("POST", "/topics/skip"), SteppedOver, work, body)
    letter = "a dead letter already" if done.dead_letter is None else f"dead letter {done.dead_letter}"
    output.write_result(
        msgspec.structs.asdict(done), f"{partition} continues at {done.next_offset}; the record is {letter}", json=json
    )
