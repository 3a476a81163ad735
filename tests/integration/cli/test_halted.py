"""`tidegate topics halted`, `resume` and `skip`, with a daemon on a real Kafka."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial

import anyio
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from structlog.testing import capture_logs

from tests.integration.browser.history import HALTED, INCIDENT
from tests.integration.cli.conftest import Answer, Cli
from tests.integration.cli.history import History
from tests.integration.ingest.intake import LOOK_EVERY_S, Intake, Sent
from tests.servers import MakeSettings
from tidegate.daemon.intake import resumption
from tidegate.daemon.intake.batches import position_source
from tidegate.daemon.intake.resumption import Halted, Resumed
from tidegate.events import topics
from tidegate.events.source import Bounds
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.queries import leases
from tidegate.schemas.wire.event import Kind

UPDATED = Kind.DATASET_UPDATED
KNOWN = "INSERT INTO event_dedupe (source, event_id, scope) VALUES ($1, '0', '') ON CONFLICT DO NOTHING"
MANY = "INSERT INTO event_dedupe SELECT source, id, '' FROM unnest($1::text[]) AS source, generate_series(0, 4) AS id"
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
        return await self._topics("resume", self.name, *args)

    async def skip(self, *args: str) -> Answer:
        return await self._topics("skip", self.name, *args)

    async def partitions(self, *args: str) -> Answer:
        return await self._topics("partitions", *args)

    async def _topics(self, *args: str) -> Answer:
        return await self._cli("--kafka-servers", self.intake.settings.kafka_servers, "topics", *args)

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
        (behind,) = (await topic.partitions("--json")).json
        answer = await topic.resume("--at", "earliest")
        await topic.went_to(3)

    assert (behind["halted"], behind["next_offset"], behind["log_start"], behind["log_end"], behind["lag"]) == (True, 1, 2, 3, 2)
    assert (await topic.partitions()).out.splitlines()[1].split()[-4:] == ["3", "2", "3", "0"]
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
    assert (entry["what"], entry["object"]) == ("resumed a partition", f"partition {topic.name}")
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


async def test_a_record_that_is_too_slow_is_stepped_over(topic: Topic, history: History) -> None:
    slow = "the record at offset 1 waits for another try: canceling statement"
    await history.daemon(away={f"Kafka partition {topic.name}": slow})

    answer = await topic.skip("--offset", "1", "--because", "its extra is too large")
    again = await topic.skip("--offset", "1", "--because", "its extra is too large")
    await history.no_daemon()
    async with topic.intake.reading(UPDATED):
        await topic.went_to(3)

    (letter,) = await topic.intake.letters()
    assert answer == (0, f"{topic.name} continues at 2; the record is dead letter {letter['id']}\n", "")
    moved = f"tidegate: the record at offset 1 of {topic.name} is not the next one any more: it has been read\n"
    assert again == (1, "", moved)
    assert await topic.intake.uris() == ["lake://a", "lake://c"]


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

    assert answer == (1, "", f"tidegate: {topic.name!r} is not halted; `tidegate topics halted` shows the partitions that are\n")


async def test_an_offset_that_was_chosen_for_an_earlier_halt_changes_nothing(history: History) -> None:
    database, execute, partition = history.database, history.database.pool.execute, "updates/3"
    await execute(HALTED, partition, 9)
    await execute(INCIDENT, partition, 9)
    (earlier,) = await database.run(leases.incidents)
    await execute("UPDATE ingest_incident SET resolved_at = at")
    await execute(INCIDENT, partition, 12)
    (later,) = await database.run(leases.incidents)
    back = partial(resumption.resume, database, "anna", at="0", is_new=True)
    left: list[int] = []

    for halt in (earlier, later, later):
        await execute(KNOWN, position_source(partition))
        with nullcontext() if len(left) == 1 else pytest.raises(RequestError, match="updates/3 was resumed meanwhile"):
            assert await back(Halted(halt, Bounds(0, 20))) == Resumed(partition, 12, 0)
        left.append(await database.pool.fetchval("SELECT count(*) FROM event_dedupe"))

    assert left == [1, 0, 1]


async def test_the_ids_of_a_former_topic_are_forgotten_in_portions(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "PORTION", 2)
    database, execute, partition = history.database, history.database.pool.execute, "updates/3"
    await execute(HALTED, partition, 9)
    await execute(INCIDENT, partition, 9)
    await execute(MANY, [position_source(partition), position_source("updates/30")])
    (incident,) = await database.run(leases.incidents)
    back = partial(resumption.resume, database, "anna", Halted(incident, Bounds(0, 20)), "0", is_new=True)
    left = partial(database.pool.fetchval, "SELECT count(*) FROM event_dedupe")

    with pytest.raises(UnavailableError, match=r"^the ids of updates/3 are too many to forget at once"):
        await back(within_s=-1.0)

    assert (await left(), await database.run(leases.incidents)) == (8, [incident])
    assert await back() == Resumed(partition, 9, 0)
    assert await left() == 5
