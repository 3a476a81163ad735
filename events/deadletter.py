"""Dead letters on Kafka: the record as it came, and in the headers why it was put aside and where it came from.

CloudEvents attributes: `ce_reason` and `ce_message` say why; `ce_topic`, `ce_partition` and `ce_offset` where it was; `ce_letter`
is its number in Postgres; `ce_valuebytes` the size of its value. Its own headers follow, `original_` before their names.

With all that, some records would be larger than Kafka takes. Of those the first `SAMPLE_BYTES` of the value are published,
without key and headers, and `ce_shortened` is `true`: the whole record is in Postgres, `tidegate deadletters show`.

A record that is replayed goes to its topic as it came, with one more header, `REPLAY`: which dead letter it was, and where and
when it came first. So it is the same event as then, also where its producer gave it no identity.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tidegate.events import cloudevents
from tidegate.events.sink import MAX_MESSAGE_BYTES, OutMessage, size
from tidegate.schemas.queries.inbox import DeadLetter
from tidegate.schemas.wire.event import MAX_ID_LENGTH, EventId, Kind

SAMPLE_BYTES = 64 * 1024
MAX_MESSAGE_LENGTH = 2000
ORIGINAL = "original_"
ANY_BYTES = b"application/octet-stream"
REPLAY = "tidegate_replay"

Headers = Sequence[tuple[str, bytes]]
Identity = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]


class Replay(msgspec.Struct, frozen=True):
    """What the header of a replayed record says: the letter's number, and the record's first place and time."""

    letter: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    source: Identity
    id: Identity
    time: Annotated[datetime, Meta(tz=True)]


_REPLAY = msgspec.json.Decoder(Replay)
_RAW = msgspec.json.Decoder(list[tuple[str, bytes]])


def place(topic: str, partition: int, offset: int) -> EventId:
    """The identity of a record that has no other: where it is."""
    return EventId(f"kafka:{topic}/{partition}", str(offset))


def replay_of(headers: Headers) -> Replay | None:
    """What a record says of having been replayed. None also for what we cannot have written."""
    for name, value in reversed(headers):
        if name == REPLAY:
            try:
                return _REPLAY.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return None
    return None


def raw(headers: Headers) -> bytes:
    """Headers as bytes from which `replayed` makes them again."""
    return msgspec.json.encode(headers)


def replayed(number: int, letter: DeadLetter) -> OutMessage:
    """The record as it came, for its topic. `number` is the letter's in Postgres. May be larger than Kafka takes: see `size`."""
    kept = _RAW.decode(letter.raw_headers) if letter.raw_headers else [(name, text.encode()) for name, text in letter.headers]
    first = replay_of(kept)
    origin = EventId(first.source, first.id) if first else place(letter.topic, letter.partition, letter.offset)
    said = Replay(number, origin.source, origin.id, first.time if first else letter.recorded_at)
    headers = [(name, value) for name, value in kept if name != REPLAY]
    return OutMessage(letter.topic, letter.key, letter.value, [*headers, (REPLAY, msgspec.json.encode(said))])


def message(topic: str, number: int, letter: DeadLetter, *, event_id: str, source: str, time: datetime) -> OutMessage:
    """Never larger than Kafka takes. `number` is the letter's in Postgres."""
    envelope = cloudevents.headers(Kind.DEAD_LETTER, event_id=event_id, source=source, time=time, content_type=ANY_BYTES)
    said = {
        "ce_reason": letter.reason,
        "ce_message": letter.message[:MAX_MESSAGE_LENGTH],
        "ce_topic": letter.topic,
        "ce_partition": letter.partition,
        "ce_offset": letter.offset,
        "ce_letter": number,
        "ce_valuebytes": letter.value_bytes,
    }
    headers = [*envelope, *((name, str(value).encode()) for name, value in said.items())]
    originals = [(f"{ORIGINAL}{name}", value.encode()) for name, value in letter.headers]
    value = letter.value or b""
    whole = OutMessage(topic=topic, key=letter.key, value=value, headers=[*headers, *originals])
    if size(whole) <= MAX_MESSAGE_BYTES:
        return whole
    return OutMessage(topic=topic, key=None, value=value[:SAMPLE_BYTES], headers=[*headers, ("ce_shortened", b"true")])
