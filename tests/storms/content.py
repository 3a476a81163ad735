"""What events say, reduced to what can be compared."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zlib import crc32

import msgspec


class Content(NamedTuple):
    """An event by its identity, and what its producer says."""

    source: str
    id: str
    uri: str
    extra: Mapping[str, Any]
    occurred_at: datetime | None

    def __str__(self) -> str:
        return f"{self.id} of {self.source}: {self.uri} {dict(self.extra)} at {self.occurred_at}"


def digest(events: Iterable[Content]) -> int:
    """The same for the same events in any order."""
    said = sorted((each.source, each.id, each.uri, each.extra, _instant(each.occurred_at)) for each in events)
    return crc32(msgspec.json.encode(said, order="sorted"))


def _instant(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat()
