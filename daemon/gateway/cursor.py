"""Cursors of lists: the key of the last row, so that a page costs the same at any depth."""

from base64 import b64decode, urlsafe_b64encode
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.daemon.gateway import json_input
from tidegate.daemon.gateway.problem import InvalidError

NOT_OURS = "cursor: this list did not give it with these parameters; repeat them, or leave it out to begin at the first row"

Row = TypeVar("Row")


class Page(msgspec.Struct, Generic[Row], frozen=True):
    """Rows of a list. `next_cursor` asks for the rows after them; None: there are none."""

    items: list[Row]
    next_cursor: str | None = None


def encode(*key: Any) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode(cursor: str, type_: Any) -> Any:
    """The key, a tuple. Raises InvalidError for a cursor that is none of this server."""
    try:
        return json_input.decode(b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True), type_)
    except ValueError as error:
        raise InvalidError(NOT_OURS) from error
