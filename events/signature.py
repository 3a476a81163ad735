"""Signatures of the dataset events that daemons publish for tasks.

The header `HEADER` has an HMAC-SHA-256 (RFC 2104) of id and data, whose key is the secret of the installation. Topics give it no
protection against readers, who may repeat a signed event: a repeated one has no effect.
"""

import hmac
from collections.abc import Sequence

HEADER = "tidegate_signature"


def signature(secret: bytes, event_id: str, data: bytes) -> bytes:
    """In hexadecimal digits. No id contains a NUL, so no other pair has the same text."""
    return hmac.digest(secret, event_id.encode() + b"\0" + data, "sha256").hex().encode()


def is_signed(secret: bytes, headers: Sequence[tuple[str, bytes]], event_id: str, data: bytes) -> bool:
    """Whether a record has the signature of its id and data."""
    expected = signature(secret, event_id, data)
    return any(name == HEADER and hmac.compare_digest(value or b"", expected) for name, value in headers)
