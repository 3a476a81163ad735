"""Cursors of lists: the key of the last row, so that a page costs the same at any depth."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.daemon.gateway.problem import InvalidError

NOT_OURS = "cursor: it is not one that this list gave; leave it out to begin at the first row"

T = TypeVar("T")
Row = TypeVar("Row")


class Page(msgspec.Struct, Generic[Row], frozen=True):
    """Rows of a list. `next_cursor` asks for the rows after them; None: there are none."""

    items: list[Row]
    next_cursor: str | None = None


def page(rows: Sequence[Row], limit: int, key: Callable[[Row], tuple[Any, ...]]) -> Page[Row]:
    """The first `limit` of the rows, which are one more if others follow."""
    shown = list(rows[:limit])
    return Page(shown, encode(*key(shown[-1])) if len(rows) > limit else None)


def encode(*key: Any) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode(cursor: str, type_: type[T]) -> T:
    """The key, a tuple. Raises InvalidError for a cursor of another list, or none of this server."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=type_)
    except (Error, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidError(NOT_OURS) from error
