"""What is wrong with topics and rights, by what Kafka tells of them."""

from typing import Any

import msgspec
import pytest

from tidegate.daemon.examination.topics import Expected, problems, unread_configurations
from tidegate.daemon.settings import Settings
from tidegate.events.inspection import OPERATIONS, READ, WRITE, Inspection, PartitionState, TopicState
from tidegate.schemas.wire.event import INCOMING, Kind

SETTINGS = Settings(postgres_dsn="", kafka_servers="", topic_prefix="t.", topic_partitions=2)
DAY_MS = 86_400_000
DELETED = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY_MS),
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
}
COMPACTED = {**DELETED, "cleanup.policy": "compact"}
WHOLE = tuple(PartitionState(number, has_leader=True, replicas=3, in_sync=3) for number in range(2))
INCOMING_TOPIC, STATES = "t.dataset-updated", "t.dag-run-state"


def healthy() -> dict[str, TopicState]:
    configurations = {SETTINGS.topic(kind): COMPACTED if kind == Kind.DAG_RUN_STATE else DELETED for kind in Kind}
    return {topic: TopicState(frozenset(OPERATIONS), WHOLE, found) for topic, found in configurations.items()}


def found(topic: str, state: dict[str, Any], settings: dict[str, Any], known: int = 2) -> list[str]:
    """The problems when one topic differs from a healthy one."""
    topics = healthy()
    topics[topic] = msgspec.structs.replace(topics[topic], **state)
    wanted = Expected(msgspec.structs.replace(SETTINGS, **settings), {INCOMING_TOPIC: known}, dedupe_days=14)
    return list(problems(Inspection(topics, may_use_group=True, may_use_transactional_id=True), wanted))


def partitions(*states: tuple[bool, int, int]) -> dict[str, Any]:
    return {"partitions": tuple(PartitionState(number, *state) for number, state in enumerate(states))}


def configured(topic: str = INCOMING_TOPIC, **options: str) -> dict[str, Any]:
    before = COMPACTED if topic == STATES else DELETED
    return {"configuration": {**before, **{name.replace("_", "."): value for name, value in options.items()}}}


@pytest.mark.parametrize(
    ("topic", "state", "settings", "says"),
    [
        (INCOMING_TOPIC, {}, {}, []),
        (INCOMING_TOPIC, {"configuration": None}, {}, []),
        (
            INCOMING_TOPIC,
            {"partitions": ()},
            {},
            ["Kafka has no topic t.dataset-updated; create it with `tidegate topics create`"],
        ),
        (STATES, {"allowed": frozenset({WRITE})}, {}, []),
        (INCOMING_TOPIC, {"allowed": frozenset({WRITE})}, {}, ["Kafka refuses the user of this host Read of the topic"]),
        (INCOMING_TOPIC, {"allowed": frozenset({READ})}, {}, ["Kafka refuses the user of this host Write of the topic"]),
        (
            INCOMING_TOPIC,
            {"allowed": frozenset(), "partitions": ()},
            {"kafka_sasl_username": "ann"},
            [
                "Kafka refuses the user 'ann' Read and Write of the topic t.dataset-updated: an ACL is missing, or one denies it;"
                " `kafka-acls.sh --add --allow-principal User:ann --operation Read --operation Write --topic t.dataset-updated`"
            ],
        ),
        (STATES, partitions((True, 3, 3)), {}, ["t.dag-run-state has 1 partition, fewer than TIDEGATE_TOPIC_PARTITIONS (2);"]),
        (INCOMING_TOPIC, {}, {"topic_partitions": 1}, []),
        (INCOMING_TOPIC, partitions((True, 3, 3)), {}, ["t.dataset-updated has 1 partition, and daemons have read 2: it was"]),
        (INCOMING_TOPIC, partitions((True, 3, 3), (False, 3, 0)), {}, ["t.dataset-updated: no leader for partition 1; start"]),
        (INCOMING_TOPIC, partitions((True, 3, 1), (True, 3, 2)), {}, ["t.dataset-updated takes no record, with fewer than 2"]),
        (
            INCOMING_TOPIC,
            partitions((True, 1, 1), (True, 1, 1)),
            {},
            ["t.dataset-updated takes no record: min.insync.replicas is 2"],
        ),
        (
            INCOMING_TOPIC,
            {**partitions((True, 1, 1), (True, 1, 1)), **configured(min_insync_replicas="1")},
            {"topic_replication": 3},
            ["t.dataset-updated has 1 replica, fewer than TIDEGATE_TOPIC_REPLICATION"],
        ),
        (INCOMING_TOPIC, configured(min_insync_replicas="1"), {}, ["t.dataset-updated may lose records with one broker"]),
        (
            INCOMING_TOPIC,
            configured(cleanup_policy="compact,delete"),
            {},
            ["cleanup.policy of t.dataset-updated is compact,delete"],
        ),
        (
            STATES,
            configured(STATES, cleanup_policy="delete"),
            {},
            ["cleanup.policy of t.dag-run-state is delete, so that the last"],
        ),
        (INCOMING_TOPIC, configured(retention_ms="-1"), {}, ["t.dataset-updated keeps records for ever, longer than"]),
        (INCOMING_TOPIC, configured(retention_ms=str(14 * DAY_MS)), {}, []),
        (INCOMING_TOPIC, configured(retention_ms=str(15 * DAY_MS)), {}, ["t.dataset-updated keeps records for 15 days, longer"]),
        (INCOMING_TOPIC, configured(retention_ms=str(DAY_MS)), {}, []),
        (INCOMING_TOPIC, configured(retention_ms=str(DAY_MS // 2)), {}, ["t.dataset-updated keeps records for 12 hours: "]),
        (STATES, configured(STATES, retention_ms="-1"), {}, []),
        (STATES, configured(STATES, max_message_bytes="9"), {}, ["max.message.bytes of t.dag-run-state is 9: records of up to"]),
    ],
)
def test_each_problem_of_a_topic_is_a_sentence(
    topic: str, state: dict[str, Any], settings: dict[str, Any], says: list[str]
) -> None:
    told = found(topic, state, settings)

    assert [problem[: len(start)] for problem, start in zip(told, says, strict=True)] == says, told


def test_a_topic_without_a_readable_configuration_is_named() -> None:
    topics = {**healthy(), STATES: TopicState(frozenset(OPERATIONS), WHOLE, None), "gone": TopicState(frozenset())}

    assert unread_configurations(Inspection(topics, may_use_group=True, may_use_transactional_id=True)) == [STATES]


def test_daemons_read_each_topic_that_they_are_given() -> None:
    assert {kind for kind in Kind if found(SETTINGS.topic(kind), {"allowed": frozenset({WRITE})}, {})} == set(INCOMING)
