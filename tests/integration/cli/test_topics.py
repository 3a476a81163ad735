"""`tidegate topics` on a real Kafka."""

from tests.integration.cli.conftest import Cli
from tidegate.schemas.event import Kind


async def test_topics_that_are_missing_are_made(cli: Cli, kafka: str, topic_prefix: str) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)

    first = await cli(*at, "topics", "create", "--partitions", "2")
    again = await cli(*at, "topics", "create", "--partitions", "2", "--json")

    assert first.rows == [["TOPIC", "PARTITIONS", "DONE"], *([f"{topic_prefix}{kind}", "2", "created"] for kind in Kind)]
    assert [(topic["existed"], topic["partitions"]) for topic in again.json] == [(True, 2)] * len(Kind)


async def test_another_number_of_partitions_is_said_and_left(cli: Cli, kafka: str, topic_prefix: str) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)
    await cli(*at, "topics", "create", "--partitions", "1")

    answer = await cli(*at, "topics", "create", "--partitions", "2")

    assert answer.code == 0
    assert f"{topic_prefix}task-state has 1 partitions, not 2; it is left so, for keys would move\n" in answer.err


async def test_what_kafka_refuses_is_one_sentence(cli: Cli, kafka: str, topic_prefix: str) -> None:
    answer = await cli("--kafka-servers", kafka, "--topic-prefix", topic_prefix, "topics", "create", "--replication", "9")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"tidegate: Kafka refused to create {topic_prefix}")
