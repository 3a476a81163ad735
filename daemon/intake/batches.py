"""Stretches of partitions, and the batches they make: records read into messages, and those that cannot be into dead letters."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from tidegate.daemon.engine import Batch
from tidegate.daemon.lineage import Lineage
from tidegate.events import dead_letter
from tidegate.events.source import Partition, Record
from tidegate.schemas.error import RejectedError
from tidegate.schemas.message import Message
from tidegate.schemas.queries.inbox import DeadLetter, OffsetMove
from tidegate.schemas.wire.envelope import Envelope, decode
from tidegate.schemas.wire.event import EventId, Kind, Rejection
from tidegate.schemas.wire.openlineage import LineageEvent


class Arrived(NamedTuple):
    """A record, and what it says: a message, what a run wrote, or why it can be neither."""

    record: Record
    reading: Message[Any] | LineageEvent | RejectedError


class Stretch(msgspec.Struct, frozen=True):
    """Consecutive records of a partition, read under the lease of `epoch`; `start` is the offset that the database has."""

    partition: Partition
    epoch: int
    start: int
    arrived: Sequence[Arrived]

    @property
    def end(self) -> int:
        """Where the partition stands once these are taken. Offsets may have gaps: compaction, transaction markers."""
        return self.arrived[-1].record.offset + 1


def count(stretches: Sequence[Stretch]) -> int:
    """How many records there are."""
    return sum(len(stretch.arrived) for stretch in stretches)


def halves(stretches: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
    """Split the records in two, in order. Several partitions are parted first; a single one is cut in the middle."""
    if len(stretches) > 1:
        middle = len(stretches) // 2
        return list(stretches[:middle]), list(stretches[middle:])
    (stretch,) = stretches
    middle = len(stretch.arrived) // 2
    first = msgspec.structs.replace(stretch, arrived=stretch.arrived[:middle])
    second = msgspec.structs.replace(stretch, start=first.end, arrived=stretch.arrived[middle:])
    return [first], [second]


def batch_of(stretches: Sequence[Stretch]) -> Batch:
    """The batch that takes these records."""
    messages, letters, origins, lineage = [], [], [], Lineage()
    for partition, record, reading in ((stretch.partition, *arrived) for stretch in stretches for arrived in stretch.arrived):
        if isinstance(reading, Message):
            messages.append(reading)
            origins.append(partial(letter_of, record))
        elif isinstance(reading, RejectedError):
            letters.append(letter_of(record, reading.reason, str(reading)))
        else:
            written = lineage.take(len(messages), key_of(partition), reading)
            messages += written
            origins += [partial(letter_of, record)] * len(written)
            if reading.refused:
                letters.append(letter_of(record, Rejection.UNKNOWN_DATASET, unknown(reading.refused)))
    moves = [OffsetMove(key_of(s.partition), s.epoch, s.start, s.end) for s in stretches]
    return Batch(messages=messages, moves=moves, letters=letters, origins=origins, lineage=lineage if lineage.used else None)


def read(kind: Kind, record: Record) -> Arrived:
    """Read a record of a topic that carries `kind`."""
    try:
        envelope, body = decode(kind, record.headers, record.value)
    except RejectedError as error:
        return Arrived(record, error)
    if isinstance(body, LineageEvent):
        return Arrived(record, body)
    if envelope.id is None or envelope.time is None:
        envelope = _completed(envelope, record)
    return Arrived(record, Message(body=body, at=envelope.time or record.timestamp, id=_id(envelope, record)))


def unknown(uris: Sequence[str]) -> str:
    """Why updates of these are not taken."""
    return f"no DAG file names {', '.join(uris)}; when one does, replay this record"


def refused(stretch: Stretch, error: RejectedError) -> Stretch:
    """The same records, to be put aside although they could be read."""
    return msgspec.structs.replace(stretch, arrived=[Arrived(record, error) for record, _ in stretch.arrived])


def letter_of(record: Record, reason: str, message: str) -> DeadLetter:
    """The whole record, and why nobody can handle it."""
    headers = [(_printable(name.encode()), _printable(value)) for name, value in record.headers]
    is_readable = all(text.encode() == value for (_, text), (_, value) in zip(headers, record.headers, strict=True))
    replay = dead_letter.replay_of(record.headers)
    return DeadLetter(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=record.key,
        headers=headers,
        value=record.value,
        value_bytes=len(record.value or b""),
        reason=reason,
        message=_printable(message.encode(errors="backslashreplace")),
        recorded_at=record.timestamp,
        raw_headers=None if is_readable else dead_letter.encode_headers(record.headers),
        replay_of=replay.letter if replay else None,
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
    return dead_letter.position_identity(*partition, 0).source


def _completed(envelope: Envelope, record: Record) -> Envelope:
    """What is missing in the envelope of a record that was replayed is as it was when the record came first."""
    replay = dead_letter.replay_of(record.headers)
    if replay is None:
        return envelope
    time = envelope.time or replay.time
    if envelope.id is not None:
        return msgspec.structs.replace(envelope, time=time)
    return Envelope(source=replay.source, id=replay.id, time=time)


def _id(envelope: Envelope, record: Record) -> EventId:
    """The producer's identity of the event; where there is none, its place in Kafka, which makes at least redelivery harmless."""
    if envelope.id is None:
        return dead_letter.position_identity(record.topic, record.partition, record.offset)
    return EventId(envelope.source or f"kafka:{record.topic}", envelope.id)


def _printable(raw: bytes | None) -> str:
    """Text that Postgres takes."""
    return (raw or b"").decode(errors="backslashreplace").replace("\x00", "\\x00")
