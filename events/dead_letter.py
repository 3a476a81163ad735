"""Dead letters on Kafka: the original record, with headers that say why it was rejected and where it was.

CloudEvents attributes: `ce_reason` and `ce_message` are the rejection; `ce_topic`, `ce_partition` and `ce_offset` the position;
`ce_letter` is the id in Postgres; `ce_valuebytes` the size of the value. The original headers follow, prefixed with `original_`.

A record that would exceed Kafka's limit is published with the first `SAMPLE_BYTES` of its value, without its key and headers,
and `ce_shortened` is `true`. The whole record is in Postgres: `tidegate deadletters show`.

A replayed record is sent to its topic unchanged but for one more header, `REPLAY`: the id of the dead letter, and the identity
and time of the first arrival. It is therefore the same event as then, also if its producer gave it no identity. A record
without a right to its identity is another event: its position identifies it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.events import cloudevents
from tidegate.events.sink import MAX_SENT_BYTES, ProducerRecord, record_bytes
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import MAX_ID_LENGTH, POSITION, EventId, Kind, Rejection

SAMPLE_BYTES = 64 * 1024
MAX_MESSAGE_LENGTH = 2000
ORIGINAL = "original_"
ANY_BYTES = b"application/octet-stream"
REPLAY = "tidegate_replay"

Headers = Sequence[tuple[str, bytes]]
Identity = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]


class Replay(msgspec.Struct, frozen=True):
    """The content of the `REPLAY` header: the id of the dead letter, and the identity and time of the first arrival.

    `is_another`: this identity is that of the record, and not the one that its producer gave.
    """

    letter: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    source: Identity
    id: Identity
    time: Annotated[datetime, Meta(tz=True)]
    is_another: bool = False


_ANOTHER = (Rejection.CONFLICTING_ID, Rejection.UNSIGNED)

_REPLAY = msgspec.json.Decoder(Replay)
_RAW = msgspec.json.Decoder(list[tuple[str, bytes]])


def position_identity(topic: str, partition: int, offset: int) -> EventId:
    """The identity of a record without one of its own: its position."""
    return EventId(f"{POSITION}{topic}/{partition}", str(offset))


def replay_of(headers: Headers) -> Replay | None:
    """The `REPLAY` header of a record; None without one, and for a malformed one."""
    for name, value in reversed(headers):
        if name == REPLAY:
            try:
                return _REPLAY.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
    return None


def encode_headers(headers: Headers) -> bytes:
    """Headers as bytes, for `DeadLetter.raw_headers`."""
    return msgspec.json.encode(headers)


def replay_record(number: int, letter: DeadLetter) -> ProducerRecord:
    """The original record for its topic. `number` is the id in Postgres. May exceed MAX_SENT_BYTES: see `record_bytes`."""
    original = _RAW.decode(letter.raw_headers) if letter.raw_headers else [(name, text.encode()) for name, text in letter.headers]
    first = replay_of(original)
    origin = EventId(first.source, first.id) if first else position_identity(letter.topic, letter.partition, letter.offset)
    is_another = letter.reason in _ANOTHER or bool(first and first.is_another)
    replay = Replay(number, origin.source, origin.id, first.time if first else letter.recorded_at, is_another)
    headers = [(name, value) for name, value in original if name != REPLAY]
    return ProducerRecord(letter.topic, letter.key, letter.value, [*headers, (REPLAY, msgspec.json.encode(replay))])


def dead_letter_record(
    topic: str, number: int, letter: DeadLetter, *, event_id: str, source: str, time: datetime
) -> ProducerRecord:
    """The record for the dead-letter topic, never above MAX_SENT_BYTES. `number` is the id in Postgres."""
    envelope = cloudevents.headers(Kind.DEAD_LETTER, event_id=event_id, source=source, time=time, content_type=ANY_BYTES)
    rejection = {
        "ce_reason": letter.reason,
        "ce_message": letter.message[:MAX_MESSAGE_LENGTH],
        "ce_topic": letter.topic,
        "ce_partition": letter.partition,
        "ce_offset": letter.offset,
        "ce_letter": number,
        "ce_valuebytes": letter.value_bytes,
    }
    headers = [*envelope, *((name, str(value).encode()) for name, value in rejection.items())]
    originals = [(f"{ORIGINAL}{name}", value.encode()) for name, value in letter.headers]
    value = letter.value or b""
    whole = ProducerRecord(topic=topic, key=letter.key, value=value, headers=[*headers, *originals])
    if record_bytes(whole) <= MAX_SENT_BYTES:
        return whole
    return ProducerRecord(topic=topic, key=None, value=value[:SAMPLE_BYTES], headers=[*headers, ("ce_shortened", b"true")])
