"""`tidegate topics` on a real Kafka."""

from importlib.metadata import version

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History
from tidegate.schemas.queries import inbox
from tidegate.schemas.wire.contract import asyncapi, json_schema
from tidegate.schemas.wire.event import DATA, Kind, type_of


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
    assert f"{topic_prefix}task-state has 1 partitions, not 2; left unchanged, because keys would move\n" in answer.err


async def test_what_kafka_refuses_is_one_sentence(cli: Cli, kafka: str, topic_prefix: str) -> None:
    answer = await cli("--kafka-servers", kafka, "--topic-prefix", topic_prefix, "topics", "create", "--replication", "9")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"tidegate: Kafka refused to create {topic_prefix}")


async def test_more_copies_in_sync_than_there_are_is_one_sentence(cli: Cli, kafka: str, topic_prefix: str) -> None:
    answer = await cli("--kafka-servers", kafka, "--topic-prefix", topic_prefix, "topics", "create", "--min-in-sync", "2")

    assert answer == (1, "", "tidegate: 2 replicas can never be in sync: there are 1; set min_in_sync to 1 at most\n")


async def test_what_a_topic_carries_is_printed(cli: Cli) -> None:
    one, every = await cli("topics", "schema", "dag-run-state"), await cli("topics", "schema")

    assert one.json == json_schema(Kind.DAG_RUN_STATE)
    assert every.json == {type_of(kind): json_schema(kind) for kind in DATA}


async def test_dead_letters_have_no_schema(cli: Cli) -> None:
    answer = await cli("topics", "schema", "dead-letter")

    assert (answer.code, "a dead letter is an unchanged record of any kind, and has no schema" in answer.err) == (2, True)


async def test_the_document_of_all_topics_has_their_names_here(cli: Cli) -> None:
    answer = await cli("--topic-prefix", "ours.", "topics", "asyncapi")

    assert answer.json == asyncapi(lambda kind: f"ours.{kind}", version("tidegate"))


async def test_records_that_were_left_out_are_counted_by_topic(cli: Cli, history: History) -> None:
    for counts in ({("t.x/0", "START"): 3, ("t.x/1", "START"): 2}, {("t.x/1", "START"): 1, ("t.x/1", "FAIL"): 1}):
        await history.database.run(inbox.count_ignored, counts=counts)

    table, document = await cli("topics", "ignored"), await cli("topics", "ignored", "--json")

    assert [row[:3] for row in table.rows] == [["TOPIC", "WHAT", "RECORDS"], ["t.x", "FAIL", "1"], ["t.x", "START", "6"]]
    assert [row["records"] for row in document.json] == [1, 6]
