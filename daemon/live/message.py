"""Messages of server-sent events."""

from collections.abc import Mapping
from typing import Any

import msgspec

RETRY = b"retry: 2000\n\n"
"""After this many milliseconds a client connects again."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: without traffic, proxies end a connection."""


def message(event: str, data: bytes) -> bytes:
    """`data` is one line of JSON."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def notice(event: str, data: Mapping[str, Any]) -> bytes:
    """A message about the stream itself."""
    return message(event, msgspec.json.encode(data))


def located(content: bytes, text: str) -> bytes:
    """A message after which its client has everything up to a position. A browser tells the script the one of an event."""
    return position(text)[:-1] + content if text else content


def position(text: str) -> bytes:
    """The position that a client sends as `Last-Event-ID` when it connects again. Browsers show no event for it."""
    return b"id: %b\n\n" % text.encode()
