"""JSON that a caller sent: in a body, in a field of a form, in a cursor."""

from typing import Any

import msgspec

from tidegate.schemas.wire.event import MAX_DEPTH
from tidegate.schemas.wire.json_text import has_nul, is_deeper

NUL = "a text has the character NUL, which cannot be stored"


def decode(content: bytes, type_: Any = Any) -> Any:
    """Raises ValueError for a text that is no JSON of the type, and for one that the database or a later parser refuses."""
    if is_deeper(content, MAX_DEPTH):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if has_nul(content):
        raise ValueError(NUL)
    return msgspec.json.decode(content, type=type_)
