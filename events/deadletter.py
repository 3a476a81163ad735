"""Dead letters on Kafka: the record as it came, and in the headers why it was put aside and where it came from.

CloudEvents attributes: `ce_reason` and `ce_message` say why; `ce_topic`, `ce_partition` and `ce_offset` where it was; `ce_letter`
is its number in Postgres; `ce_valuebytes` the size of its value. Its own headers follow, `original_` before their names.

With all that, some records would be larger than Kafka takes. Of those the first `SAMPLE_BYTES` of the value are published,
without key and headers, and `ce_shortened` is `true`: the whole record is in Postgres, `tidegate deadletters show`.
"""

from datetime import datetime

from tidegate.events import cloudevents
from tidegate.events.sink import MAX_MESSAGE_BYTES, OutMessage, size
from tidegate.schemas.event import Kind
from tidegate.schemas.queries.inbox import DeadLetter

SAMPLE_BYTES = 64 * 1024
MAX_MESSAGE_LENGTH = 2000
ORIGINAL = "original_"
ANY_BYTES = b"application/octet-stream"


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
