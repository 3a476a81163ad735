"""`tidegate datasets`: lists from a real database, updates to a real Kafka."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import History

BY_PATTERN = """
from tidegate import Dag, DatasetPattern
with Dag("by_pattern", schedule=DatasetPattern("raw://a/*")) as dag: dag.empty("done")
"""


async def test_datasets_are_listed_with_who_makes_and_who_waits_for_them(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights")

    answer = await cli("datasets", "list")

    assert [row[:4] for row in answer.rows] == [
        ["DATASET", "CONSUMERS", "PRODUCERS", "EVENTS"],
        ["lake://delays", "0", "1", "0"],
        ["lake://flights", "1", "0", "1"],
        ["lake://weather", "1", "0", "0"],
    ]


async def test_datasets_are_listed_by_the_beginning_of_their_uri(cli: Cli, history: History) -> None:
    await history.updated("lake://flights")
    await history.updated("s3://flights", "2")

    answer = await cli("datasets", "list", "s3:", "--json")

    assert [row["uri"] for row in answer.json] == ["s3://flights"]


MANY = """
    INSERT INTO dataset_event (dataset_id, source, event_id, extra, occurred_at)
    SELECT id, 'p', n::text, '{}', now() FROM dataset, generate_series(1, 10002) AS n WHERE uri = 'lake://flights'
"""


async def test_events_of_a_dataset_are_counted_up_to_a_bound(cli: Cli, history: History) -> None:
    await history.file()
    await history.database.pool.execute(MANY)

    answer = await cli("datasets", "list", "lake://flights")
    (row,) = (await cli("datasets", "list", "lake://flights", "--json")).json

    assert answer.rows[1][3] == "10,000+"
    assert row["events"] == 10_001


async def test_the_last_event_of_a_dataset_is_the_last_to_arrive(cli: Cli, history: History) -> None:
    for year in (2100, 2013):
        await history.updated("lake://flights", str(year), occurred_at=datetime(year, 1, 1, tzinfo=UTC))
    arrived = (await history.database.pool.fetch("SELECT received_at FROM dataset_event ORDER BY id"))[-1]["received_at"]

    (row,) = (await cli("datasets", "list", "--json")).json

    assert datetime.fromisoformat(row["last_event_at"]) == arrived


async def test_a_late_dataset_is_marked(cli: Cli, history: History) -> None:
    await history.hourly("lake://flights")
    on_time = await cli("datasets", "list")
    await history.database.pool.execute("UPDATE dataset_event SET received_at = now() - interval '25 h'")
    late = await cli("datasets", "list")
    (row,) = (await cli("datasets", "list", "--json")).json

    assert ("late" in on_time.out, on_time.rows[1][-1]) == (False, "1h00m")
    assert "1d01h, late" in late.out
    assert (row["is_late"], row["interval_s"]) == (True, 3600.0)


CONSUMERS = """
from tidegate import Dag, Dataset
flights, weather = Dataset("lake://flights"), Dataset("lake://weather")
with Dag("both", schedule=flights & weather) as dag: dag.empty("a")
with Dag("each", schedule=flights) as dag: dag.empty("a")
with Dag("paused", schedule=flights) as dag: dag.empty("a")
"""


async def test_events_are_listed_with_what_became_of_each_for_every_dag(cli: Cli, history: History) -> None:
    await history.file(CONSUMERS)
    await cli("dags", "pause", "paused")
    for id_ in ("f-1", "f-2"):
        await history.updated("lake://flights", id_, {"day": id_})

    events = (await cli("datasets", "events", "lake://flights", "--json")).json

    assert [(each["event"]["id"], each["event"]["source"], each["event"]["extra"]) for each in events] == [
        ("f-2", "importer", {"day": "f-2"}),
        ("f-1", "importer", {"day": "f-1"}),
    ]
    (run,) = [outcome["run_id"] for outcome in events[1]["outcomes"] if outcome["run_id"]]
    assert [
        (outcome["dag_id"], outcome["outcome"], outcome["run_id"], outcome["reason"]) for outcome in events[1]["outcomes"]
    ] == [
        ("both", "pending", None, None),
        ("each", "consumed", run, None),
        ("paused", "discarded", None, "the DAG was paused"),
    ]


async def test_an_event_is_shown_for_people_also_when_no_dag_waited_for_it(cli: Cli, history: History) -> None:
    await history.updated("lake://flights", "f-1", {"day": 1})
    await history.updated("lake://flights", "f-2")

    answer = await cli("datasets", "events", "lake://flights", "--event-id", "f-1")

    title, row = answer.out.splitlines()
    assert title.split() == ["EVENT", "OCCURRED", "SOURCE", "ID", "PRODUCER", "EXTRA", "DAG", "OUTCOME", "RUN", "OR", "REASON"]
    assert row.endswith('importer  f-1  -         {"day":1}  -    no DAG   -')


async def test_events_that_are_older_than_the_retention_are_said_to_be(cli: Cli, history: History) -> None:
    await history.file(CONSUMERS)
    await history.updated("lake://flights", "f-1")
    await history.updated("lake://weather", "w-1")
    await history.updated("lake://flights", "f-2")
    before = await cli("datasets", "events", "lake://flights")
    await history.retention()

    flights = await cli("datasets", "events", "lake://flights", "--json")
    weather = await cli("datasets", "events", "lake://weather")

    older = "events before 2099-12-01 are older than the retention; only those still needed are kept\n"
    assert before.err == ""
    assert ([each["event"]["id"] for each in flights.json], flights.err) == (["f-2"], older)
    assert (weather.code, weather.out, weather.err) == (0, "", f"there are no such events\n{older}")


async def test_an_update_is_published_with_its_identity(cli: Cli, kafka: str, topic_prefix: str) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)
    await cli(*at, "topics", "create", "--partitions", "1")

    answer = await cli(*at, "datasets", "publish", "lake://flights", "--event-id", "e-1", "--extra", '{"day": 1}', "--json")

    assert answer == (0, answer.out, "no DAG waits for lake://flights\n")
    assert answer.json == {"uri": "lake://flights", "source": "tidegate-cli", "id": "e-1"}
    (record,) = await records(kafka, f"{topic_prefix}dataset-updated", 1)
    assert json.loads(record.value or b"") == {"uri": "lake://flights", "extra": {"day": 1}}
    assert {name: value.decode() for name, value in record.headers}["ce_id"] == "e-1"


async def test_a_name_that_no_dag_waits_for_is_told_with_the_nearest_ones(
    cli: Cli, history: History, kafka: str, topic_prefix: str
) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)
    away = ("--postgres-dsn", "postgresql://127.0.0.1:1/none")
    await cli(*at, "topics", "create", "--partitions", "1")
    await history.file()
    await history.file(BY_PATTERN, "pattern.py")

    told = {
        uri: (await cli(*at, "datasets", "publish", uri)).err for uri in ("lake://flights", "raw://a/b", "lake://flihgts", "x")
    }
    silent = await cli(*at, *away, "datasets", "publish", "lake://flihgts")
    await history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)
    broken = [(await cli(*at, "datasets", "publish", uri)).err for uri in ("lake://flights", "x", "lake://flihgts")]

    assert told == {
        "lake://flights": "",
        "raw://a/b": "",
        "lake://flihgts": "no DAG waits for lake://flihgts; did you mean lake://flights?\n",
        "x": "no DAG waits for x\n",
    }
    assert (silent.code, silent.err) == (0, "")
    says = "1 DAG file is broken; `tidegate dags errors` says why"
    nearest = f"no DAG waits for lake://flihgts; {says}; did you mean lake://flights?\n"
    assert broken == ["", f"no DAG waits for x; {says}\n", nearest]


async def test_each_update_is_a_new_event_unless_it_is_named(cli: Cli, kafka: str, topic_prefix: str) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)
    await cli(*at, "topics", "create", "--partitions", "1")

    answers = [await cli(*at, "datasets", "publish", "lake://flights", "--json") for _ in range(2)]

    assert len({answer.json["id"] for answer in answers}) == 2


async def test_a_uri_that_cannot_be_one_is_refused(cli: Cli, kafka: str, topic_prefix: str) -> None:
    at = ("--kafka-servers", kafka, "--topic-prefix", topic_prefix)

    answer = await cli(*at, "datasets", "publish", "has spaces")

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("tidegate: this event cannot be published: not a valid dataset-updated event")


async def records(kafka: str, topic: str, count: int) -> Sequence[ConsumerRecord]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        return [await consumer.getone() for _ in range(count)]


async def test_an_audit_counts_the_outcomes_of_events(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights")

    told, counted = await cli("datasets", "audit"), await cli("datasets", "audit", "--json")

    assert (told.code, told.out.splitlines()) == (
        0,
        ["OUTCOME  REASON  COUNT", "pending  -       1", "", "1 event, due: 1 outcome", "each has exactly one outcome"],
    )
    assert (counted.code, counted.json) == (
        0,
        {
            "events": 1,
            "due": 1,
            "unproven": 0,
            "outcomes": [{"outcome": "pending", "reason": None, "count": 1}],
            "wrong": 0,
            "findings": [],
        },
    )


async def test_an_audit_fails_and_names_what_is_wrong(cli: Cli, history: History) -> None:
    await history.file()
    await history.updated("lake://flights", "1")
    await history.updated("lake://flights", "2")
    await history.database.pool.execute("DELETE FROM dataset_dag_run_queue")

    told, counted = await cli("datasets", "audit", "--limit", "1"), await cli("datasets", "audit", "--json")

    assert told.code == 1
    assert told.out.splitlines()[:3] == ["2 events, due: 2 outcomes", "", "wrong: 2 outcomes"]
    assert told.out.endswith("it is neither pending nor consumed nor discarded\n")
    assert told.err == "1 more is wrong; --limit shows more\n"
    assert (counted.code, counted.json["wrong"]) == (1, 2)
    assert {(each["dag_id"], each["uri"]) for each in counted.json["findings"]} == {("daily_delays", "lake://flights")}


async def test_an_audit_of_nothing_finds_nothing(cli: Cli) -> None:
    answer = await cli("datasets", "audit")

    assert answer == (0, "no event has come yet\n", "")


async def test_fields_that_are_ignored_are_told(cli: Cli, history: History) -> None:
    await history.updated("lake://flights")
    await history.database.pool.execute("INSERT INTO ignored_field SELECT id, 'extras', now(), now() FROM dataset")

    answer = await cli("datasets", "list")

    assert (
        answer.err
        == "lake://flights: its events have fields that are ignored: extras; what runs are to read belongs into extra\n"
    )
    assert (await cli("datasets", "list", "--json")).json[0]["ignored_fields"] == ["extras"]
