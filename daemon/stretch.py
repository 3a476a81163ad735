"""Stretches of partitions, and the batches they make: records read into messages, and those that cannot be into dead letters."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tidegate.daemon.engine import Batch
from tidegate.events.source import Partition, Record
from tidegate.schemas.error import RejectedError
from tidegate.schemas.event import Envelope, EventId, Kind, decode
from tidegate.schemas.message import Message
from tidegate.schemas.queries.inbox import DeadLetter, OffsetMove


class Stretch(msgspec.Struct, frozen=True):
    """Consecutive records of a partition, read under the lease of `epoch`; `start` is the offset that the database has."""

    partition: Partition
    epoch: int
    start: int
    records: Sequence[Record]

    @property
    def end(self) -> int:
        """Where the partition stands once these are taken. Offsets may have gaps: compaction, transaction markers."""
        return self.records[-1].offset + 1


Read = Callable[[Record], Message[Any]]
"""Makes a message of a record, or raises RejectedError."""


def count(stretches: Sequence[Stretch]) -> int:
    """How many records there are."""
    return sum(len(stretch.records) for stretch in stretches)


def halves(stretches: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
    """Split the records in two, in order. Several partitions are parted first; a single one is cut in the middle."""
    if len(stretches) > 1:
        middle = len(stretches) // 2
        return list(stretches[:middle]), list(stretches[middle:])
    (stretch,) = stretches
    middle = len(stretch.records) // 2
    first = msgspec.structs.replace(stretch, records=stretch.records[:middle])
    second = msgspec.structs.replace(stretch, start=first.end, records=stretch.records[middle:])
    return [first], [second]


def batch_of(stretches: Sequence[Stretch], read: Read) -> Batch:
    """The batch that takes these records."""
    messages, letters, origins = [], [], []
    for stretch in stretches:
        for record in stretch.records:
            try:
                messages.append(read(record))
                origins.append(partial(letter_of, record))
            except RejectedError as error:
                letters.append(letter_of(record, error.reason, str(error)))
    moves = [OffsetMove(key_of(s.partition), s.epoch, s.start, s.end) for s in stretches]
    return Batch(messages=messages, moves=moves, letters=letters, origins=origins)


def reads(kind: Kind) -> Read:
    """How records of a topic that carries `kind` are read."""

    def read(record: Record) -> Message[Any]:
        envelope, body = decode(kind, record.headers, record.value)
        return Message(body=body, at=envelope.time or record.timestamp, id=_id(envelope, record))

    return read


def refuses(reason: str, message: str) -> Read:
    """Every record is put aside, although it could be read."""

    def read(_record: Record) -> Message[Any]:
        raise RejectedError(reason, message)

    return read


def letter_of(record: Record, reason: str, message: str) -> DeadLetter:
    """The whole record, and why nobody can handle it."""
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        headers=[(_printable(name.encode()), _printable(value)) for name, value in record.headers],
        value=record.value,
        value_bytes=len(record.value or b""),
        reason=reason,
        message=_printable(message.encode(errors="backslashreplace")),
    )


def key_of(partition: Partition) -> str:
    """The key of a partition's lease."""
    return f"{partition.topic}/{partition.partition}"


def partition_of(key: str) -> Partition:
    """The partition of a lease's key."""
    topic, _, number = key.rpartition("/")
    return Partition(topic, int(number))


def place_source(partition: Partition) -> str:
    """The source of events that have no identity but their place in this partition."""
    return f"kafka:{key_of(partition)}"


def _id(envelope: Envelope, record: Record) -> EventId:
    """The producer's identity of the event; where there is none, its place in Kafka, which makes at least redelivery harmless."""
    if envelope.id is None:
        return EventId(place_source(Partition(record.topic, record.partition)), str(record.offset))
    return EventId(envelope.source or f"kafka:{record.topic}", envelope.id)


def _printable(raw: bytes | None) -> str:
    """Text that Postgres takes."""
    return (raw or b"").decode(errors="backslashreplace").replace("\x00", "\\x00")
