"""A topic that was created again with fewer partitions: the lease of one that is gone stops no other."""

import anyio

from tests.integration.ingest.intake import LOOK_EVERY_S, Intake, Sent
from tidegate.daemon.leases import register
from tidegate.events.source import Partition, Source
from tidegate.schemas.queries.leases import PARTITION, LeaseSpec
from tidegate.schemas.wire.event import Kind

KIND = Kind.DATASET_UPDATED


async def test_a_partition_that_kafka_does_not_have_is_named_and_the_others_are_read(intake: Intake) -> None:
    gone = f"{intake.settings.topic(KIND)}/99"
    await register(intake.database, [LeaseSpec(PARTITION, gone, 5)])
    first = await intake.send(KIND, Sent(b'{"uri": "lake://first"}'))

    async with intake.reading(KIND):
        while await intake.stands(KIND) != first or not intake.context.outages.away:
            await anyio.sleep(LOOK_EVERY_S)
        away = dict(intake.context.outages.away)
        second = await intake.send(KIND, Sent(b'{"uri": "lake://second"}'))
        while await intake.stands(KIND) != second:
            await anyio.sleep(LOOK_EVERY_S)

    assert await intake.uris() == ["lake://first", "lake://second"]
    assert list(away) == [f"Kafka partition {gone}"]
    assert away[f"Kafka partition {gone}"].error.endswith("add partitions until it has 100")


async def test_each_partition_of_a_topic_is_known_to_have_a_leader(intake: Intake) -> None:
    place = intake.partition(KIND)
    async with Source(intake.settings.kafka_servers) as source:
        source.assign({place: 0})

        assert await source.has_leader(place.topic) == {0: True}
        assert await source.lag() == {Partition(place.topic, 0): 0}
