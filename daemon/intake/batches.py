"""Batches of records per partition: readable records become messages, the others dead letters."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from tidegate.daemon.containment import halves
from tidegate.daemon.engine import Batch
from tidegate.daemon.fault_log import faults
from tidegate.daemon.lineage import Lineage
from tidegate.events import dead_letter
from tidegate.events.source import Partition, Record
from tidegate.schemas.error import FATAL, RejectedError, described
from tidegate.schemas.message import Message
from tidegate.schemas.queries.inbox import OffsetMove
from tidegate.schemas.queries.leases import Lease
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.envelope import Envelope, checked_time, decode
from tidegate.schemas.wire.event import POSITION, EventId, Incoming, Kind, Rejection
from tidegate.schemas.wire.openlineage import LineageEvent

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


class ReadRecord(msgspec.Struct, frozen=True):
    """A record with what it decodes to: a message, an OpenLineage event, or the reason why it is rejected."""

    record: Record
    reading: Message[Any] | LineageEvent | RejectedError


class PartitionBatch(msgspec.Struct, frozen=True):
    """Consecutive records of a partition, read under the lease of `epoch`."""

    partition: Partition
    epoch: int
    records: Sequence[ReadRecord]

    @property
    def end(self) -> int:
        """The offset to commit. Offsets have gaps from compaction and transaction markers."""
        return self.records[-1].record.offset + 1


def split(batches: Sequence[PartitionBatch]) -> tuple[Sequence[PartitionBatch], Sequence[PartitionBatch]] | None:
    """Split the records in two halves, in order: between partitions, or in the middle of a single one. None for one record."""
    if len(batches) > 1:
        return halves(batches)
    (batch,) = batches
    middle = len(batch.records) // 2
    if not middle:
        return None
    first, second = (msgspec.structs.replace(batch, records=half) for half in (batch.records[:middle], batch.records[middle:]))
    return [first], [second]


def tried_alone(batches: Sequence[PartitionBatch], partitions: Collection[Partition]) -> Sequence[Sequence[PartitionBatch]]:
    """The parts to apply one after the other: of each of `partitions`, after all others, the next record alone, then the rest."""
    parts = [[batch for batch in batches if batch.partition not in partitions]]
    for batch in batches:
        if batch.partition in partitions:
            first, rest = batch.records[:1], batch.records[1:]
            parts += [[msgspec.structs.replace(batch, records=records)] for records in (first, rest) if records]
    return [part for part in parts if part]


def batch_of(batches: Sequence[PartitionBatch], positions: Mapping[Partition, int]) -> Batch:
    """The batch for the engine that commits these records. `positions` are the committed offsets."""
    messages, dead_letters, makers, lineage = [], [], [], Lineage()
    for partition, read in ((batch.partition, read) for batch in batches for read in batch.records):
        record, reading = read.record, read.reading
        if isinstance(reading, Message):
            messages.append(reading)
            makers.append(partial(dead_letter_of, record))
        elif isinstance(reading, RejectedError):
            dead_letters.append(dead_letter_of(record, reading.reason, str(reading)))
        else:
            updates = lineage.add(len(messages), key_of(partition), reading)
            messages += updates
            makers += [partial(dead_letter_of, record)] * len(updates)
            if reading.refused:
                dead_letters.append(dead_letter_of(record, Rejection.UNKNOWN_DATASET, unknown_reason(reading.refused)))
    return Batch(
        messages=messages,
        offset_moves=[OffsetMove(key_of(at := batch.partition), batch.epoch, positions[at], batch.end) for batch in batches],
        dead_letters=dead_letters,
        dead_letter_of=makers,
        lineage=lineage if lineage.used else None,
    )


def read(kind: Kind, record: Record) -> ReadRecord:
    """Decode a record of the topic of `kind`."""
    try:
        envelope, body = decode(kind, record.headers, record.value)
        return ReadRecord(record, body if isinstance(body, LineageEvent) else _message(body, envelope, record))
    except RejectedError as error:
        return ReadRecord(record, error)
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - it is the reason of the dead letter
        faults.report("record_not_decoded", error, topic=record.topic, partition=record.partition, offset=record.offset)
        return ReadRecord(record, RejectedError(Rejection.UNPROCESSABLE, f"it could not be decoded: {described(error)}"))


def unknown_reason(uris: Sequence[str]) -> str:
    """Why updates of these datasets are rejected."""
    return f"no DAG file names {', '.join(uris)}; when one does, replay this record"


def reject(batch: PartitionBatch, error: RejectedError) -> PartitionBatch:
    """The same records, all of them rejected."""
    return msgspec.structs.replace(batch, records=[ReadRecord(read.record, error) for read in batch.records])


def dead_letter_of(record: Record, reason: str, message: str) -> DeadLetter:
    """The dead letter of a record: all of its bytes, and why it is rejected. Without its headers if they cannot be stored."""
    bare = DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        headers=[],
        value=record.value,
        value_bytes=len(record.value or b""),
        reason=reason,
        message=_printable(message.encode(errors="backslashreplace")),
        recorded_at=record.timestamp,
    )
    try:
        return _with_headers(bare, record.headers)
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - a dead letter is the last resort
        faults.report("headers_not_stored", error, topic=record.topic, partition=record.partition, offset=record.offset)
        return bare


def _with_headers(letter: DeadLetter, originals: dead_letter.Headers) -> DeadLetter:
    headers = [(_printable(name.encode()), _printable(value)) for name, value in originals]
    is_readable = all(text.encode() == value for (_, text), (_, value) in zip(headers, originals, strict=True))
    replay = dead_letter.replay_of(originals)
    return msgspec.structs.replace(
        letter,
        headers=headers,
        raw_headers=None if is_readable else dead_letter.encode_headers(originals),
        replay_of=replay.letter if replay else None,
    )


def key_of(partition: Partition) -> str:
    """The key of a partition's lease."""
    return f"{partition.topic}/{partition.partition}"


@lru_cache(maxsize=4096)
def partition_of(key: str) -> Partition | None:
    """The partition of a lease's key; None for a key of another shape, which another program wrote."""
    topic, _, number = key.rpartition("/")
    return Partition(topic, int(number)) if topic and _NUMBER.fullmatch(number) else None


def partitions_of(topic: str, leases: Mapping[str, Lease]) -> Mapping[Partition, Lease]:
    """The leases of the partitions of a topic."""
    found = [(partition, lease) for key, lease in leases.items() if (partition := partition_of(key)) is not None]
    return {partition: lease for partition, lease in found if partition.topic == topic}


def position_source(key: str) -> str:
    """The source of events that are identified by their position in the partition of this lease."""
    return f"{POSITION}{key}"


def _message(body: Incoming, envelope: Envelope, record: Record) -> Message[Any]:
    """Raises RejectedError for a record whose only time, from Kafka or from its first delivery, is out of range."""
    if replay := dead_letter.replay_of(record.headers):
        envelope = _completed(envelope, replay)
    at = envelope.time or checked_time("the time of the record", record.timestamp)
    return Message(body=body, at=at, id=_id(envelope, record), ignored=envelope.ignored)


def _completed(envelope: Envelope, replay: dead_letter.Replay) -> Envelope:
    """A replayed record gets the missing parts of its envelope from its first delivery, and another identity if it needs one."""
    time = envelope.time or checked_time("the time of the record", replay.time)
    if envelope.id is not None and not replay.is_another:
        return msgspec.structs.replace(envelope, time=time)
    return msgspec.structs.replace(envelope, source=replay.source, id=replay.id, time=time)


def _id(envelope: Envelope, record: Record) -> EventId:
    """The producer's id of the event; without one its position in Kafka, which deduplicates redeliveries but not retries."""
    if envelope.source is None or envelope.id is None:
        return dead_letter.position_identity(record.topic, record.partition, record.offset)
    return EventId(envelope.source, envelope.id)


def _printable(raw: bytes | None) -> str:
    """Text without NUL and invalid UTF-8, which Postgres rejects."""
    return (raw or b"").decode(errors="backslashreplace").replace("\x00", "\\x00")
