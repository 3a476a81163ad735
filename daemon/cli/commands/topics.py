"""`tidegate topics`: the Kafka topics."""

from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from tidegate.daemon.cli.command import Json, examples, noun
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query_at, settings_of, who, with_database
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import inbox, leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.timetable.text import age
from tidegate.schemas.wire import contract
from tidegate.schemas.wire.event import DATA, Kind, type_of

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database
    from tidegate.events.source import Bounds

app = noun("Create the Kafka topics, say what they carry, see to partitions that stand still.")

TITLES = ("TOPIC", "PARTITIONS", "DONE")
IGNORED = ("TOPIC", "WHAT", "RECORDS", "LAST", "AGE")
HALTED = ("PARTITION", "STANDS AT", "LOG START", "LOG END", "SINCE", "AGE")
BACK = (
    "from {} back to {}: say --new-topic if the topic was made anew, so that records without an id are taken,"
    " or --same-topic if it lost its end, so that those that were read are not taken twice"
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
    """Make the topics that are missing; those that exist are left as they are.

    Every record has as many copies as --replication says, and counts once --min-in-sync of them are written. With three
    copies and more that is two, unless said otherwise: one broker may be away, and no record is lost with it.
    """
    from tidegate.events import topics

    settings = settings_of(context, "kafka_servers")
    each = partitions or settings.topic_partitions
    copies = replication or settings.topic_replication
    create = partial(topics.create, min_in_sync=min_in_sync or settings.topic_min_in_sync)
    made = anyio.run(create, settings.kafka_servers, settings.topic_prefix, each, copies)
    if json:
        output.write_json(made)
    else:
        output.table(
            TITLES, ((it.topic, it.partitions, "existed" if it.existed else "created") for it in made), empty="no topics"
        )
    for topic in made:
        if topic.differs:
            output.say(f"{topic.topic} has {topic.partitions} partitions, not {topic.wanted}; it is left so, for keys would move")


@app.command(epilog=examples("tidegate topics schema", "tidegate topics schema dag-run-state > dag-run-state.v1.schema.json"))
def schema(
    kind: Annotated[Kind | None, typer.Argument(metavar="KIND", help="Else all of them, by their types.")] = None,
) -> None:
    """Print the JSON Schema of the events of a kind. Needs no server."""
    if kind is None:
        output.write_json({type_of(each): contract.json_schema(each) for each in DATA})
    elif kind in DATA:
        output.write_json(contract.json_schema(kind))
    else:
        raise typer.BadParameter("a dead letter is a record as it came, and has no schema", param_hint="KIND")


@app.command(epilog=examples("tidegate topics asyncapi > asyncapi.json"))
def asyncapi(context: typer.Context) -> None:
    """Print an AsyncAPI 3 document of all topics: names, keys, headers, and what they carry. Needs no server."""
    output.write_json(contract.asyncapi(settings_of(context).topic, version("tidegate")))


@app.command(epilog=examples("tidegate topics ignored"))
def ignored(context: typer.Context, *, json: Json = False) -> None:
    """Count the records that were read and left out, because they say nothing of new data: OpenLineage's other events."""
    found, now = query_at(context, inbox.ignored)
    if json:
        output.write_json(found)
    else:
        rows = ((row.topic, row.what, row.records, row.last_at, age(row.last_at, now)) for row in found)
        output.table(IGNORED, rows, empty="no record was left out")


@app.command(epilog=examples("tidegate topics halted"))
def halted(context: typer.Context, *, json: Json = False) -> None:
    """List partitions that stand still: their recorded offset does not fit their log."""
    found, now = query_at(context, leases.incidents)
    if json:
        output.write_json(found)
    else:
        rows = ((it.partition, it.next_offset, it.log_start, it.log_end, it.at, it.at and age(it.at, now)) for it in found)
        output.table(HALTED, rows, empty="no partition stands still")


@app.command(
    epilog=examples(
        "tidegate topics resume tidegate.dataset-updated/3 --at earliest   # what the log still has",
        "tidegate topics resume tidegate.dataset-updated/3 --at earliest --new-topic",
        "tidegate topics resume tidegate.dataset-updated/3 --at 4711",
    )
)
def resume(
    context: typer.Context,
    partition: Annotated[str, typer.Argument(metavar="PARTITION", help="As `tidegate topics halted` shows it.")],
    *,
    at: Annotated[str, typer.Option(metavar="earliest|latest|OFFSET", help="Where to go on.")],
    new_topic: Annotated[
        bool | None,
        typer.Option("--new-topic/--same-topic", help="To go back: was the topic made anew, or did it lose its end?"),
    ] = None,
    json: Json = False,
) -> None:
    """Let a partition that stands still go on, and say what is skipped. Who did it is recorded."""
    from tidegate.daemon.intake.batches import partition_of, position_source
    from tidegate.events.source import Source

    settings = settings_of(context, "postgres_dsn", "kafka_servers")

    async def work(database: "Database") -> tuple[Incident, int]:
        incident = _of(partition, await database.run(leases.incidents))
        place = partition_of(partition)
        async with Source(settings.kafka_servers) as source:
            offset = _offset(at, (await source.bounds([place]))[place])
        if offset < incident.next_offset and new_topic is None:
            raise typer.BadParameter(BACK.format(incident.next_offset, offset), param_hint="--at")

        async def go_on(db: Db) -> bool:
            if new_topic:
                await inbox.forget_source(db, position_source(place))
            return await leases.resume(db, incident, offset, who(settings))

        if not await database.run(go_on):
            raise RequestError(f"{partition} goes on already")
        return incident, offset

    incident, offset = with_database(context, work)
    if json:
        output.write_json({"partition": partition, "stood_at": incident.next_offset, "next_offset": offset})
    else:
        output.write(f"{partition} goes on at {offset}; {_means(incident.next_offset, offset, is_new=bool(new_topic))}")


def _of(partition: str, incidents: list[Incident]) -> Incident:
    for incident in incidents:
        if incident.partition == partition:
            return incident
    raise RequestError(f"{output.printable(partition)} does not stand still; `tidegate topics halted` shows what does")


def _offset(at: str, bounds: "Bounds") -> int:
    """Raises BadParameter for what is not in the log."""
    named = {"earliest": bounds.start, "latest": bounds.end}
    if at in named:
        return named[at]
    if not at.isdecimal() or not bounds.start <= int(at) <= bounds.end:
        raise typer.BadParameter(f"earliest, latest, or {bounds.start} to {bounds.end} are possible", param_hint="--at")
    return int(at)


def _means(stood_at: int, offset: int, *, is_new: bool) -> str:
    if offset > stood_at:
        return f"offsets {stood_at} to {offset - 1} are skipped"
    repeated = "records without an id count as new" if is_new else "what comes a second time has no effect"
    return f"it stood at {stood_at}: {repeated}"
