"""What is wrong with the topics of an installation, and with the rights of its user in Kafka."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.daemon.read_model.system import System
from tidegate.daemon.settings import Settings
from tidegate.events.inspection import READ, WRITE, Inspection, TopicState
from tidegate.events.topics import DAY_MS, POLICY, SAFE_COPIES, SAFE_IN_SYNC
from tidegate.schemas.text import counted
from tidegate.schemas.wire.event import INCOMING, MAX_RECORD_BYTES, Kind

CLEANUP, RETENTION, LARGEST, IN_SYNC = "cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas"

UNBOUNDED = -1
"""A `retention.ms` without a limit."""


class Expected(msgspec.Struct, frozen=True):
    """What an installation expects of its topics: `partitions` by topic are known to daemons, `dedupe_days` is the shortest."""

    settings: Settings
    partitions: Mapping[str, int]
    dedupe_days: int


def expected(system: System, settings: Settings) -> Expected:
    """By the live daemons, else by the settings of this host."""
    known = {line.topic: line.number for line in system.leases if line.topic}
    days = [daemon.terms.retention.dedupe_days for daemon in system.daemons if daemon.terms.retention.dedupe_days]
    return Expected(settings, known, min(days, default=settings.dedupe_days))


def group_of(settings: Settings) -> str:
    """The group under whose name daemons store their offsets."""
    return f"{settings.topic_prefix}daemon"


def transactional_id_of(settings: Settings) -> str:
    """One of the transactional ids of daemons."""
    return f"{settings.topic_prefix}outbox-0"


def unread_configurations(found: Inspection) -> list[str]:
    """The topics whose configuration the user may not read."""
    return [topic for topic, state in found.topics.items() if state.partitions and state.configuration is None]


def problems(found: Inspection, wanted: Expected) -> Iterator[str]:
    """The problems, and what to do about each."""
    for kind in Kind:
        yield from _of_topic(kind, found.topics[wanted.settings.topic(kind)], wanted)
    yield from _of_names(found, wanted.settings)


def _of_topic(kind: Kind, state: TopicState, wanted: Expected) -> Iterator[str]:
    topic = wanted.settings.topic(kind)
    needed = (READ, WRITE) if kind in INCOMING else (WRITE,)
    if lacking := [operation for operation in needed if operation not in state.allowed]:
        yield _no_right(" and ".join(lacking), f"the topic {topic}", f"--topic {topic}", lacking, wanted.settings)
    elif not state.partitions:
        yield f"Kafka has no topic {topic}; create it with `tidegate topics create`"
    if state.partitions:
        yield from _of_partitions(topic, state, wanted)
        if (replicas := min(each.replicas for each in state.partitions)) < wanted.settings.topic_replication:
            more = "give it more with `kafka-reassign-partitions.sh`, or lower the setting"
            yield f"{topic} has {counted(replicas, 'replica', 'replicas')}, fewer than TIDEGATE_TOPIC_REPLICATION; {more}"
    if state.partitions and state.configuration is not None:
        yield from _of_replicas(topic, state, int(state.configuration.get(IN_SYNC, 1)), wanted.settings)
        yield from _of_configuration(kind, topic, state.configuration, wanted)


def _of_names(found: Inspection, settings: Settings) -> Iterator[str]:
    if not found.may_use_group:
        group = group_of(settings)
        yield _no_right(READ, f"the group {group}", f"--group {group}", [READ], settings)
    if not found.may_use_transactional_id:
        prefix = transactional_id_of(settings)[:-1]
        option = f"--transactional-id {prefix} --resource-pattern-type prefixed"
        yield _no_right(WRITE, f"the transactional ids {prefix}0 to {prefix}7", option, [WRITE], settings)


def _no_right(what: str, of: str, option: str, lacking: Sequence[str], settings: Settings) -> str:
    user = settings.kafka_sasl_username
    operations = " ".join(f"--operation {operation}" for operation in lacking)
    who = f"the user {user!r}" if user else "the user of this host"
    allow = f"`kafka-acls.sh --add --allow-principal User:{user or 'NAME'} {operations} {option}` adds one"
    return f"Kafka refuses {who} {what} of {of}: an ACL is missing, or one denies it; {allow}"


def _of_partitions(topic: str, state: TopicState, wanted: Expected) -> Iterator[str]:
    number, known, wished = len(state.partitions), wanted.partitions.get(topic, 0), wanted.settings.topic_partitions
    add = f"`kafka-topics.sh --alter --topic {topic} --partitions {max(known, wished)}` adds partitions"
    has = f"{topic} has {counted(number, 'partition', 'partitions')}"
    if number < known:
        yield f"{has}, and daemons have read {known}: it was created again with fewer; {add}"
    elif number < wished:
        meant = f"set TIDEGATE_TOPIC_PARTITIONS to {number} if that is meant"
        yield f"{has}, fewer than TIDEGATE_TOPIC_PARTITIONS ({wished}); {add}, which moves keys, or {meant}"
    if leaderless := [str(each.number) for each in state.partitions if not each.has_leader]:
        yield f"{topic}: no leader for partition {', '.join(leaderless)}; start a broker that has a replica"


def _of_replicas(topic: str, state: TopicState, least: int, settings: Settings) -> Iterator[str]:
    """`least`: how many replicas must have a record before it counts."""
    replicas = min(each.replicas for each in state.partitions)
    safe = settings.topic_min_in_sync or (SAFE_IN_SYNC if replicas >= SAFE_COPIES else 1)
    if least > replicas:
        yield f"{topic} takes no record: {IN_SYNC} is {least}, above its replicas; {_set(topic, IN_SYNC, replicas)}"
    elif out := [str(each.number) for each in state.partitions if each.has_leader and each.in_sync < least]:
        away = f"fewer than {least} replicas in sync of partition {', '.join(out)}"
        yield f"{topic} takes no record, with {away}; start the brokers that have the others"
    elif least < safe <= replicas:
        yield f"{topic} may lose records with one broker: {IN_SYNC} is {least}; {_set(topic, IN_SYNC, safe)}"


def _of_configuration(kind: Kind, topic: str, found: Mapping[str, str], wanted: Expected) -> Iterator[str]:
    cleanup = POLICY.get(kind, {}).get(CLEANUP, "delete")
    if (policy := found.get(CLEANUP, cleanup)) != cleanup:
        lost = "the last states of runs get lost" if cleanup == "compact" else "records get lost before they are read"
        yield f"{CLEANUP} of {topic} is {policy}, so that {lost}; {_set(topic, CLEANUP, cleanup)}"
    if kind in INCOMING and RETENTION in found:
        yield from _of_retention(topic, int(found[RETENTION]), wanted.dedupe_days)
    if (largest := int(found.get(LARGEST, MAX_RECORD_BYTES))) < MAX_RECORD_BYTES:
        refused = f"records of up to {MAX_RECORD_BYTES} bytes are not all taken"
        yield f"{LARGEST} of {topic} is {largest}: {refused}; {_set(topic, LARGEST, 2 * MAX_RECORD_BYTES)}"


def _of_retention(topic: str, kept_ms: int, dedupe_days: int) -> Iterator[str]:
    remembered = f"TIDEGATE_DEDUPE_DAYS ({dedupe_days})"
    if kept_ms == UNBOUNDED or kept_ms > dedupe_days * DAY_MS:
        kept = "for ever" if kept_ms == UNBOUNDED else f"for {kept_ms / DAY_MS:g} days"
        again = f"a record that is read again then counts twice; raise the setting, or {_set(topic, RETENTION, 7 * DAY_MS)}"
        yield f"{topic} keeps records {kept}, longer than {remembered}: {again}"
    elif kept_ms < DAY_MS:
        lost = "records get lost while daemons or Postgres are away for longer"
        yield f"{topic} keeps records for {kept_ms / DAY_MS * 24:.3g} hours: {lost}; {_set(topic, RETENTION, 7 * DAY_MS)}"


def _set(topic: str, name: str, value: object) -> str:
    return f"`kafka-configs.sh --alter --topic {topic} --add-config {name}={value}` corrects it"
