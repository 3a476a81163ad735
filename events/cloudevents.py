"""The CloudEvents envelope of outgoing events, in binary mode: attributes as headers, data as value."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tidegate.schemas.wire.event import Kind, type_of

JSON = b"application/json"
_SPEC_VERSION = ("ce_specversion", b"1.0")
_TYPES = {kind: ("ce_type", type_of(kind).encode()) for kind in Kind}


def headers(kind: Kind, *, event_id: str, source: str, time: datetime, content_type: bytes = JSON) -> list[tuple[str, bytes]]:
    """The headers of one record. `time` is aware. Records with the same `source` and `event_id` are the same event."""
    return with_id(event_id, common_headers(kind, source=source, time=time, content_type=content_type))


def with_id(event_id: str, common: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers of one record, with what it has in common with others."""
    return [_SPEC_VERSION, ("ce_id", event_id.encode()), *common]


def common_headers(kind: Kind, *, source: str, time: datetime, content_type: bytes = JSON) -> Sequence[tuple[str, bytes]]:
    """What records of one source and time have in common."""
    return (
        ("ce_source", source.encode()),
        _TYPES[kind],
        ("ce_time", time.isoformat().encode()),
        ("content-type", content_type),
    )
