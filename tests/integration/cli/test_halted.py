"""`tidegate topics halted` and `resume`, with a daemon on a real Kafka."""

from collections.abc import AsyncIterator

import anyio
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from structlog.testing import capture_logs

from tests.integration.cli.conftest import Answer, Cli
from tests.integration.cli.history import History
from tests.integration.ingest.intake import LOOK_EVERY_S, Intake, Sent
from tests.servers import MakeSettings
from tidegate.events import topics
from tidegate.schemas.wire.event import Kind

UPDATED = Kind.DATASET_UPDATED
SAID = {"--same-topic": "records read before have no effect twice", "--new-topic": "records without an id count as new"}


def update(name: str) -> Sent:
    """Without an identity but its place in Kafka."""
    return Sent(b'{"uri": "lake://%s"}' % name.encode())


class Topic:
    """The dataset topic: what is done to it, and to its recorded offset."""

    def __init__(self, intake: Intake, cli: Cli) -> None:
        self.intake = intake
        self.name = f"{intake.settings.topic(UPDATED)}/0"
        self._cli = cli

    async def resume(self, *args: str) -> Answer:
        return await self._cli("--kafka-servers", self.intake.settings.kafka_servers, "topics", "resume", self.name, *args)

    async def expire(self, before: int) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.intake.settings.kafka_servers)
        await admin.start()
        partition = TopicPartition(self.intake.settings.topic(UPDATED), 0)
        await admin.delete_records({partition: RecordsToDelete(before_offset=before)})
        await admin.close()

    async def set_back(self, offset: int) -> None:
        await self.intake.rows("UPDATE lease SET next_offset = $1 WHERE key = $2", offset, self.name)

    async def halted(self) -> None:
        while not await self.intake.rows("SELECT FROM lease WHERE halted"):
            await anyio.sleep(LOOK_EVERY_S)

    async def went_to(self, offset: int) -> None:
        while await self.intake.stands(UPDATED) != offset:
            await anyio.sleep(LOOK_EVERY_S)


@pytest.fixture
async def topic(cli: Cli, history: History, settings: MakeSettings) -> AsyncIterator[Topic]:
    """With three records of datasets a, b, c, the first of them read."""
    mine = settings(topic_partitions=1, lease_renew_s=0.1)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    intake = Intake(mine, history.database)
    with capture_logs():
        await intake.take(UPDATED, update("a"))
        await intake.send(UPDATED, update("b"), update("c"))
        yield Topic(intake, cli)


async def test_a_partition_whose_records_expired_goes_on_and_says_what_is_skipped(topic: Topic, cli: Cli) -> None:
    await topic.expire(2)

    async with topic.intake.reading(UPDATED):
        await topic.halted()
        listed = await cli("topics", "halted", "--json")
        answer = await topic.resume("--at", "earliest")
        await topic.went_to(3)

    (incident,) = listed.json
    assert (incident["partition"], incident["next_offset"], incident["log_start"], incident["log_end"]) == (topic.name, 1, 2, 3)
    assert answer == (0, f"{topic.name} continues at 2; offsets 1 to 1 are skipped\n", "")
    assert await topic.intake.uris() == ["lake://a", "lake://c"]
    assert (await cli("topics", "halted")).err == "no partition is halted\n"


async def test_who_let_a_partition_go_on_is_recorded(topic: Topic) -> None:
    await topic.expire(2)
    async with topic.intake.reading(UPDATED):
        await topic.halted()

    await topic.resume("--at", "latest")

    (entry,) = await topic.intake.rows("SELECT who, what, object, details FROM audit_log")
    assert entry["who"].endswith("@worker-1")
    assert (entry["what"], entry["object"]) == ("resumed a partition", topic.name)
    assert entry["details"] == {"stood_at": 1, "log_start": 2, "log_end": 3, "next_offset": 3}


@pytest.mark.parametrize(("option", "read"), [("--same-topic", ["a", "b", "c"]), ("--new-topic", ["a", "a", "b", "c"])])
async def test_a_partition_that_goes_back_repeats_only_what_is_said_to_be_new(topic: Topic, option: str, read: list[str]) -> None:
    await topic.set_back(1000)

    async with topic.intake.reading(UPDATED):
        await topic.halted()
        answer = await topic.resume("--at", "0", option)
        await topic.went_to(3)

    assert answer.out == f"{topic.name} continues at 0; it was halted at 1000: {SAID[option]}\n"
    assert await topic.intake.uris() == [f"lake://{name}" for name in read]


async def test_to_go_back_it_must_be_said_whether_the_topic_is_new(topic: Topic) -> None:
    await topic.set_back(1000)
    async with topic.intake.reading(UPDATED):
        await topic.halted()

    answer = await topic.resume("--at", "earliest")

    assert answer.code == 2
    assert "from 1000 back to 0: add --new-topic if" in answer.err
    assert await topic.intake.stands(UPDATED) == 1000


@pytest.mark.parametrize("at", ["1", "4", "-1", "soon"])
async def test_an_offset_that_the_log_has_not_is_wrong_usage(topic: Topic, at: str) -> None:
    await topic.expire(2)
    async with topic.intake.reading(UPDATED):
        await topic.halted()

    answer = await topic.resume(f"--at={at}")

    assert answer.code == 2
    assert "invalid value for --at: write earliest, latest, or 2 to 3" in answer.err


async def test_a_partition_that_does_not_stand_still_is_left_alone(topic: Topic) -> None:
    answer = await topic.resume("--at", "latest")

    assert answer == (1, "", f"tidegate: {topic.name} is not halted; `tidegate topics halted` shows the partitions that are\n")
