"""`tidegate topics`: the Kafka topics."""

from typing import Annotated

import anyio
import typer

from tidegate.daemon.cli import output
from tidegate.daemon.cli.command import Json, examples, noun
from tidegate.daemon.cli.session import settings_of

app = noun("Create the Kafka topics.")

TITLES = ("TOPIC", "PARTITIONS", "DONE")


@app.command(epilog=examples("tidegate topics create", "tidegate topics create --partitions 24 --replication 3"))
def create(
    context: typer.Context,
    *,
    partitions: Annotated[int | None, typer.Option(min=1, help="Else TIDEGATE_TOPIC_PARTITIONS.")] = None,
    replication: Annotated[int | None, typer.Option(min=1, help="Else TIDEGATE_TOPIC_REPLICATION.")] = None,
    json: Json = False,
) -> None:
    """Make the topics that are missing; those that exist are left as they are."""
    from tidegate.events import topics

    settings = settings_of(context, "kafka_servers")
    each = partitions or settings.topic_partitions
    copies = replication or settings.topic_replication
    made = anyio.run(topics.create, settings.kafka_servers, settings.topic_prefix, each, copies)
    if json:
        output.write_json(made)
    else:
        output.table(
            TITLES, ((it.topic, it.partitions, "existed" if it.existed else "created") for it in made), empty="no topics"
        )
    for topic in made:
        if topic.differs:
            output.say(f"{topic.topic} has {topic.partitions} partitions, not {topic.wanted}; it is left so, for keys would move")
