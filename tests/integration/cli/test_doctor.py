"""`tidegate doctor` finds each fault that is planted, and says what to do about it."""

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.integration.browser.history import INCIDENT, LOSS
from tests.integration.cli import dead_letters
from tests.integration.cli.conftest import Cli
from tests.integration.cli.history import HOST, History
from tests.secured_kafka import DESCRIBE, DESCRIBE_CONFIGS, GROUP, READ, TOPIC, TRANSACTIONAL_ID, USER, WRITE, SecuredKafka, deny
from tests.waiting import until
from tidegate.daemon.examination import examine
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.leases import Job, Retention, Terms
from tidegate.schemas.wire.event import Kind

NOWHERE = "127.0.0.1:1"

TASKS = """
from tidegate import Dag

with Dag("tasks") as dag:
    dag.command("closed", ["true"], pool="closed")
    dag.command("wide", ["true"], pool="narrow", pool_slots=3)
    dag.command("lost", ["true"], pool="absent")
    dag.submit("nightly", "load.py", cluster="nightly")
    dag.sql("report", "SELECT 1")
"""
SICK = """
from tidegate import Dag

with Dag("sick") as dag:
    dag.empty("nothing")
"""
CLUSTERS = '{"nightly": {"master": "spark://127.0.0.1:1,127.0.0.1:2"}}'

LEASES = """
INSERT INTO lease (kind, key, owner, next_offset)
SELECT kind, key, id, 7 FROM job CROSS JOIN (VALUES
    ('partition', '{prefix}dataset-updated/0'), ('partition', '{prefix}dataset-updated/1'),
    ('partition', '{prefix}dataset-updated/2')
) AS held (kind, key) UNION ALL
SELECT 'clock', '0', NULL, NULL
"""
RELAY = "INSERT INTO outbox (shard, kind, key, event_id, time, payload) VALUES (1, 'x', 'k', 'e', '2026-01-01Z', '')"
FORGED = "SET session_replication_role = replica; UPDATE audit_log SET who = 'eve'; RESET session_replication_role"


class Fault(NamedTuple):
    """What the line about a fault says, and how it is mended."""

    says: str
    remedy: str


IN_POSTGRES = (
    Fault("1 task waits for the pool 'closed', which has 0 slots in all", "`tidegate pools set closed 1`"),
    Fault("1 task waits for the pool 'narrow', which has 2 slots in all, and one of them needs 3", "tidegate pools set narrow 3"),
    Fault("1 task waits for the pool 'absent', which does not exist", "`tidegate pools set absent SLOTS`"),
    Fault("1 task waits for the master of cluster 'nightly', which no host knows", "add it to TIDEGATE_SPARK_CLUSTERS"),
    Fault("DAG 'sick' is held since", "it cannot be read; correct it, then `tidegate dags release sick`"),
    Fault("1 DAG file is broken", "`tidegate dags errors`"),
    Fault("3 dead letters are open", "`tidegate deadletters list`"),
    Fault("Postgres has lost commits of", "`tidegate losses settle"),
    Fault("updates/3 is not read: its next offset 7 is outside its log", "`tidegate topics resume updates/3 --at OFFSET`"),
    Fault("1 lease has no daemon", "one takes over within seconds, or its log says why not"),
    Fault("a mail server is out of service for worker-1", "it hangs"),
    Fault("daemons of the versions newer, test are alive", "end the upgrade"),
    Fault("to be published: Kafka is away, or it is damaged", "see `outbox_row_unreadable` in the log of a daemon"),
    Fault("the audit log was changed", "`tidegate audit verify`"),
)

IN_TOPICS: Mapping[Kind, tuple[int, Mapping[str, str], Sequence[Fault]]] = {
    Kind.DAG_FILE_CHANGED: (0, {}, [Fault("Kafka has no topic {}", "create it with `tidegate topics create`")]),
    Kind.DATASET_UPDATED: (
        2,
        {"retention.ms": "-1"},
        [
            Fault("{} has 2 partitions, and daemons have read 3", "`kafka-topics.sh --alter --topic {} --partitions 3`"),
            Fault("{} keeps records for ever, longer than TIDEGATE_DEDUPE_DAYS (14)", "--add-config retention.ms=604800000"),
        ],
    ),
    Kind.TASK_FINISHED: (
        1,
        {"cleanup.policy": "compact", "retention.ms": "7200000"},
        [
            Fault("{} has 1 partition, fewer than TIDEGATE_TOPIC_PARTITIONS (2)", "--alter --topic {} --partitions 2"),
            Fault("cleanup.policy of {} is compact, so that records get lost", "--topic {} --add-config cleanup.policy=delete"),
            Fault("{} keeps records for 2 hours: records get lost", "--topic {} --add-config retention.ms=604800000"),
        ],
    ),
    Kind.DAG_RUN_STATE: (
        2,
        {"cleanup.policy": "delete", "max.message.bytes": "1000"},
        [
            Fault("cleanup.policy of {} is delete, so that the last states of runs", "--add-config cleanup.policy=compact"),
            Fault("max.message.bytes of {} is 1000", "--topic {} --add-config max.message.bytes="),
        ],
    ),
    Kind.TASK_STATE: (
        2,
        {"min.insync.replicas": "2"},
        [Fault("{} takes no record: min.insync.replicas is 2, above its replicas", "--add-config min.insync.replicas=1")],
    ),
    Kind.DEAD_LETTER: (2, {}, []),
}
"""By topic: its partitions and its configuration, and what is wrong with them."""

OF_SPARK = (
    Fault(
        "Spark Connect does not answer this host at 127.0.0.1:1: ",
        "'tasks' cannot run there: start it, or correct TIDEGATE_SPARK",
    ),
    Fault(
        "the Spark master of cluster 'nightly' does not answer this host at 127.0.0.1:1, 127.0.0.1:2: ", "TIDEGATE_SPARK_CLUSTERS"
    ),
)

DENIED: Sequence[tuple[int, str, int, Fault]] = (
    (TOPIC, "dataset-updated", READ, Fault("Kafka refuses the user 'alice' Read of the topic", "--operation Read --topic {}")),
    (TOPIC, "task-state", WRITE, Fault("Kafka refuses the user 'alice' Write of the topic", "--operation Write --topic {}")),
    (
        TOPIC,
        "task-finished",
        DESCRIBE,
        Fault("Kafka refuses the user 'alice' Read and Write of the topic", "--operation Read --operation Write --topic {}"),
    ),
    (GROUP, "daemon", DESCRIBE, Fault("Kafka refuses the user 'alice' Read of the group", "--operation Read --group {}")),
    (
        TRANSACTIONAL_ID,
        "outbox-0",
        DESCRIBE,
        Fault("Kafka refuses the user 'alice' Write of the transactional ids", "--resource-pattern-type prefixed"),
    ),
)
"""Resources of the user with an operation that is denied, and what the doctor says of each."""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, topic_prefix: str) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TIDEGATE_TOPIC_PREFIX", topic_prefix)
    monkeypatch.setenv("TIDEGATE_TOPIC_PARTITIONS", "2")
    monkeypatch.setattr(examine, "TIMEOUT_S", 60.0)
    return monkeypatch


@asynccontextmanager
async def administration(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """The address of a server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def planted_in_postgres(history: History, cli: Cli, topic_prefix: str) -> None:
    execute = history.database.pool.execute
    await history.daemon(clusters={"spark-submit": ()}, retention=Retention(14, 90, 14), away={"a mail server": "it hangs"})
    await execute(LEASES.format(prefix=topic_prefix))
    newer = Job(id=uuid4(), host=HOST, pid=4712, version="newer", terms=Terms(lease_ttl_s=3600.0, clusters={"spark-submit": ()}))
    await history.database.run(leases.renew, newer, {})
    await execute("INSERT INTO pool (name, slots) VALUES ('closed', 0), ('narrow', 2)")
    await history.file(TASKS, "tasks.py")
    await history.file(SICK, "sick.py")
    assert (await cli("runs", "trigger", "tasks")).code == 0
    await history.clock("tasks")
    await history.admitted()
    await execute("UPDATE dag SET held_since = now(), hold_reason = 'it cannot be read' WHERE dag_id = 'sick'")
    await history.broken_file("bad.py", "SyntaxError: invalid syntax", 3)
    await dead_letters.written(history)
    await execute(LOSS)
    await execute(INCIDENT, "updates/3", 7)
    await execute("DELETE FROM outbox")
    await execute(RELAY)
    await execute(FORGED)


async def planted_in_topics(bootstrap: str, topic_prefix: str) -> None:
    new = [
        NewTopic(f"{topic_prefix}{kind}", partitions, 1, topic_configs=configuration)
        for kind, (partitions, configuration, _) in IN_TOPICS.items()
        if partitions
    ]
    async with administration(bootstrap) as admin:
        response = await admin.create_topics(new)
    assert [code for _, code, _ in response.topic_errors] == [0] * len(new)


def faults(topic_prefix: str) -> list[Fault]:
    of_topics = [
        Fault(*(part.replace("{}", f"{topic_prefix}{kind}") for part in fault))
        for kind, (_, _, found) in IN_TOPICS.items()
        for fault in found
    ]
    return [*IN_POSTGRES, *of_topics, *OF_SPARK]


def unnamed(problems: Sequence[str], wanted: Sequence[Fault]) -> list[Fault]:
    """The faults that no problem names with the remedy."""
    return [fault for fault in wanted if not any(fault.says in text and fault.remedy in text for text in problems)]


async def test_each_planted_fault_is_named_with_its_remedy(
    history: History, cli: Cli, kafka: str, topic_prefix: str, here: pytest.MonkeyPatch
) -> None:
    here.setenv("TIDEGATE_KAFKA_SERVERS", kafka)
    here.setenv("TIDEGATE_SPARK_REMOTE", f"sc://{NOWHERE}/;token=secret")
    here.setenv("TIDEGATE_SPARK_CLUSTERS", CLUSTERS)
    await planted_in_postgres(history, cli, topic_prefix)
    await planted_in_topics(kafka, topic_prefix)
    wanted = faults(topic_prefix)

    answer = await cli("doctor", "--json")

    problems = answer.json["problems"]
    assert unnamed(problems, wanted) == [], problems
    assert (len(problems), len(wanted) >= 25) == (len(wanted), True), problems
    assert (answer.code, answer.json["verdict"].startswith(f"{len(wanted)} problems: ")) == (1, True)
    assert "secret" not in answer.out + answer.err


async def test_a_healthy_installation_has_no_problem(
    history: History, cli: Cli, kafka: str, spark_connect: str, here: pytest.MonkeyPatch
) -> None:
    here.setenv("TIDEGATE_KAFKA_SERVERS", kafka)
    here.setenv("TIDEGATE_SPARK_REMOTE", spark_connect)
    await history.daemon(retention=Retention(14, 90, 14))
    await history.file(TASKS.replace('cluster="nightly"', ""), "tasks.py")
    await cli("topics", "create")

    answer = await cli("doctor")

    assert (answer.code, answer.err) == (0, ""), answer.out
    assert answer.out.startswith("all well: ")


async def test_without_a_daemon_kafka_itself_is_asked(history: History, cli: Cli, here: pytest.MonkeyPatch) -> None:
    here.setenv("TIDEGATE_KAFKA_SERVERS", NOWHERE)

    away = await cli("doctor")
    here.setenv("TIDEGATE_KAFKA_SERVERS", "kafka")
    no_address = await cli("doctor")
    async with silent_server() as address:
        here.setenv("TIDEGATE_KAFKA_SERVERS", address)
        here.setattr(examine, "TIMEOUT_S", 0.3)
        silent = await cli("doctor")

    no_daemon = Fault("no daemon is alive: nothing starts until one does", "`tidegate daemon`")
    refused = Fault(f"Kafka does not answer at {NOWHERE}", "check that it runs and that the address is right")
    in_time = Fault(f"Kafka at {address} did not answer in time", "")
    malformed = Fault("'kafka' is not a Kafka address", "write host:port")
    assert unnamed(away.out.splitlines(), [no_daemon, refused]) == []
    assert unnamed(no_address.out.splitlines(), [no_daemon, malformed]) == []
    assert unnamed(silent.out.splitlines(), [no_daemon, in_time]) == []


async def test_each_missing_right_is_named_with_its_remedy(
    history: History, cli: Cli, secured_kafka: SecuredKafka, topic_prefix: str, here: pytest.MonkeyPatch
) -> None:
    for name, value in secure_settings(secured_kafka).items():
        here.setenv(name, value)
    await history.daemon()
    assert (await cli("topics", "create")).code == 0
    healthy = await cli("doctor")
    async with administration(secured_kafka.bootstrap) as admin:
        for kind, name, operation, _ in DENIED:
            await deny(admin, kind, f"{topic_prefix}{name}", operation)
    wanted = [Fault(fault.says, fault.remedy.replace("{}", f"{topic_prefix}{name}")) for _, name, _, fault in DENIED]

    async def all_named() -> bool:
        return not unnamed((await cli("doctor")).out.splitlines(), wanted)

    await until(all_named, 60)
    answer = await cli("doctor", "--json")

    assert (healthy.code, healthy.err) == (0, ""), healthy.out
    assert len(answer.json["problems"]) == len(wanted), answer.json["problems"]


async def test_a_refused_login_and_an_unreadable_configuration_are_said(
    history: History, cli: Cli, secured_kafka: SecuredKafka, topic_prefix: str, here: pytest.MonkeyPatch
) -> None:
    for name, value in secure_settings(secured_kafka).items():
        here.setenv(name, value)
    await history.daemon()
    assert (await cli("topics", "create")).code == 0
    async with administration(secured_kafka.bootstrap) as admin:
        await deny(admin, TOPIC, f"{topic_prefix}task-state", DESCRIBE_CONFIGS)

    async def is_said() -> bool:
        return f"not looked at: the configuration of {topic_prefix}task-state, which needs" in (await cli("doctor")).err

    await until(is_said, 60)
    here.setenv("TIDEGATE_KAFKA_SASL_USERNAME", "bob")
    refused = await cli("doctor")

    assert unnamed(refused.out.splitlines(), [Fault("it refused the login of 'bob'", "check TIDEGATE_KAFKA_SASL_USERNAME")]) == []


def secure_settings(server: SecuredKafka) -> dict[str, str]:
    security = server.scram
    return {
        "TIDEGATE_KAFKA_SERVERS": server.login,
        "TIDEGATE_KAFKA_SECURITY_PROTOCOL": security.security_protocol,
        "TIDEGATE_KAFKA_SASL_MECHANISM": security.sasl_mechanism,
        "TIDEGATE_KAFKA_SASL_USERNAME": USER,
        "TIDEGATE_KAFKA_SASL_PASSWORD_FILE": security.sasl_password_file,
        "TIDEGATE_KAFKA_SSL_CA_FILE": security.ssl_ca_file,
    }
