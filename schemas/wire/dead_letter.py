"""Dead letters: the records that can never be handled, with the reason."""

from datetime import datetime

import msgspec


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that can never be handled. `recorded_at` is its time in the topic.

    `headers` are text; if that lost something, `raw_headers` has their bytes. `replay_of` is the dead letter whose replay failed.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: list[tuple[str, str]]
    value: bytes | None
    value_bytes: int
    reason: str
    message: str
    recorded_at: datetime
    raw_headers: bytes | None = None
    replay_of: int | None = None
