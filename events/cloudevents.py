"""The CloudEvents envelope of outgoing events, in binary mode: attributes as headers, data as value."""

from datetime import datetime

from tidegate.schemas.wire.event import Kind, type_of

JSON = b"application/json"
_SPEC_VERSION = ("ce_specversion", b"1.0")
_TYPES = {kind: ("ce_type", type_of(kind).encode()) for kind in Kind}


def headers(kind: Kind, *, event_id: str, source: str, time: datetime, content_type: bytes = JSON) -> list[tuple[str, bytes]]:
    """The headers of one record. `time` is aware. Records with the same `source` and `event_id` are the same event."""
    return [
        _SPEC_VERSION,
        ("ce_id", event_id.encode()),
        ("ce_source", source.encode()),
        _TYPES[kind],
        ("ce_time", time.isoformat().encode()),
        ("content-type", content_type),
    ]
