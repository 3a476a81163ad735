"""Effects have fields of their types. Decisions build them unchecked; without this, only Postgres would tell."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from tidegate.schemas.effect import Effect


def well_formed(effects: Iterable[Effect]) -> list[Effect]:
    """The same effects. Raises msgspec.ValidationError for a field with a value of another type."""
    found = list(effects)
    for effect in found:
        _decoder(type(effect)).decode(msgspec.msgpack.encode(effect))
    return found


@cache
def _decoder(type_: type) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(type_)
