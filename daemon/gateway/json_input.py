"""JSON that a caller sent: in a body, in a field of a form, in a cursor."""

import re
from typing import Any

import msgspec

from tidegate.schemas.wire.event import MAX_DEPTH
from tidegate.schemas.wire.json_text import has_nul, is_deeper

_HALF = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
"""A first half without the second; msgspec calls the text after it truncated."""

NUL = "a text has the character NUL, which cannot be stored"


def decode(content: bytes, type_: Any = Any) -> Any:
    """Raises ValueError for a text that is no JSON of the type, and for one that the database or a later parser refuses."""
    if is_deeper(content, MAX_DEPTH):
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if has_nul(content):
        raise ValueError(NUL)
    try:
        return msgspec.json.decode(content, type=type_)
    except msgspec.DecodeError as error:
        if not isinstance(error, msgspec.ValidationError) and _HALF.search(content):
            raise ValueError(
                "a text has one half of a surrogate pair, such as \\ud800; write both halves, or leave it out"
            ) from error
        raise
