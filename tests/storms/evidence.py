"""What is known after a storm: the topics, the cluster's journal, the logs of the daemons; the rest is in Postgres."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import asyncpg
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.storms.cluster import Entry
from tests.storms.processes import End
from tests.storms.records import BAD, Planned
from tidegate.daemon.postgres.database import register_codecs
from tidegate.events import topics
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import INCOMING, DagRunStateChanged, Kind, TaskStateChanged

READ_S = 120.0

CLEARED = """
    SELECT DISTINCT ended.dag_run_id
    FROM run_state_log AS ended
    JOIN run_state_log AS again ON again.dag_run_id = ended.dag_run_id AND again.seq > ended.seq
    WHERE ended.state IN ('success', 'failed') AND again.state IN ('queued', 'running')
"""

Place = tuple[str, int, int]
"""Topic, partition, offset."""

Fingerprint = tuple[str, int]
"""The id that a record's headers give it, and a checksum of its content."""


class Taken(msgspec.Struct, frozen=True):
    """A record that producers, daemons or the cluster sent."""

    place: Place
    headers: Mapping[str, bytes]
    value: bytes | None

    @property
    def identity(self) -> tuple[str, str]:
        """Without an envelope, every record is an event of its own."""
        if "ce_id" in self.headers:
            return self.headers["ce_source"].decode(), self.headers["ce_id"].decode()
        topic, partition, offset = self.place
        return f"kafka:{topic}/{partition}", str(offset)

    @property
    def bad(self) -> str:
        """The reason of its dead letter; empty for a good record."""
        return self.headers.get(BAD, b"").decode()

    @property
    def fingerprint(self) -> Fingerprint:
        """The same for a record that was planned and the one in the topic."""
        return fingerprint(self.headers.items(), self.value)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """`ends_of_logs` are those of the partitions that daemons read, by lease key.

    `specs` are the current versions, `versions` all of them; `cleared` are the ids of runs that had ended and went on.
    `words` are all that is said in the topics.
    """

    db: "asyncpg.Connection[asyncpg.Record]"
    acknowledged: Sequence[Planned]
    updates: Sequence[Taken]
    finishes: Sequence[Taken]
    dead_letters: Sequence[Taken]
    ends_of_logs: Mapping[str, int]
    run_states: Sequence[DagRunStateChanged]
    task_states: Sequence[TaskStateChanged]
    journal: Sequence[Entry]
    specs: Mapping[str, DagSpec]
    versions: Mapping[int, DagSpec]
    cleared: Set[int]
    ends: Sequence[End]
    logs: Sequence[Mapping[str, Any]]
    words: Sequence[tuple[Place, bytes]]

    def logged(self, event: str) -> int:
        """How often daemons said so."""
        return sum(line.get("event") == event for line in self.logs)


async def gather(
    db: "asyncpg.Connection[asyncpg.Record]",
    servers: str,
    prefix: str,
    home: Path,
    acknowledged: Sequence[Planned],
    ends: Sequence[End],
) -> Evidence:
    await register_codecs(db)
    records: dict[Kind, list[Any]] = {}
    ends_of_logs: dict[str, int] = {}
    for kind in Kind:
        records[kind] = [record async for record in read_all(servers, topics.name(prefix, kind), ends_of_logs)]
    return Evidence(
        db=db,
        acknowledged=acknowledged,
        updates=[_taken(record) for record in records[Kind.DATASET_UPDATED]],
        finishes=[_taken(record) for record in records[Kind.TASK_FINISHED]],
        dead_letters=[_taken(record) for record in records[Kind.DEAD_LETTER]],
        ends_of_logs={key: end for key, end in ends_of_logs.items() if _kind_of(key, prefix) in INCOMING},
        run_states=_states(Kind.DAG_RUN_STATE, records),
        task_states=_states(Kind.TASK_STATE, records),
        journal=[msgspec.json.decode(line, type=Entry) for line in (home / "journal").read_bytes().splitlines()],
        specs={
            row["dag_id"]: msgspec.convert(row["spec"], DagSpec)
            for row in await db.fetch("SELECT dag.dag_id, spec FROM dag JOIN dag_version ON dag_version.id = version_id")
        },
        versions={row["id"]: msgspec.convert(row["spec"], DagSpec) for row in await db.fetch("SELECT id, spec FROM dag_version")},
        cleared={row[0] for row in await db.fetch(CLEARED)},
        ends=ends,
        logs=list(lines_of(sorted(home.glob("daemon-*.log")))),
        words=[((r.topic, r.partition, r.offset), _words(r)) for found in records.values() for r in found],
    )


async def read_all(servers: str, topic: str, ends_of_logs: dict[str, int]) -> AsyncIterator[Any]:
    """Every record that the topic has now, each partition in order."""
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=4 << 20)
    await consumer.start()
    try:
        numbers = (await consumer._client.fetch_all_metadata()).partitions_for_topic(topic) or set()
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        ends = await consumer.end_offsets(partitions)
        ends_of_logs |= {f"{topic}/{tp.partition}": end for tp, end in ends.items()}
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        with anyio.fail_after(READ_S):
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for batch in (await consumer.getmany(timeout_ms=500)).values():
                    for record in batch:
                        yield record
    finally:
        await consumer.stop()


def _kind_of(partition: str, prefix: str) -> Kind:
    return Kind(partition.rpartition("/")[0].removeprefix(prefix))


def _taken(record: Any) -> Taken:
    return Taken((record.topic, record.partition, record.offset), dict(record.headers), record.value)


def _states(kind: Kind, records: Mapping[Kind, Sequence[Any]]) -> list[Any]:
    return [decode_state(kind, record.headers, record.value) for record in records[kind]]


def _words(record: Any) -> bytes:
    return b" ".join([record.value or b"", record.key or b"", *(value for _, value in record.headers)])


def lines_of(logs: Iterable[Path]) -> Iterable[Mapping[str, Any]]:
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            try:
                yield msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                yield {"event": "not a log line", "text": line}


def fingerprint(headers: Iterable[tuple[str, bytes]], value: bytes | None) -> Fingerprint:
    return dict(headers).get("ce_id", b"").decode(errors="replace"), crc32(value or b"")
