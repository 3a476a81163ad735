"""Decoding of records."""

from base64 import b64encode
from collections.abc import Sequence

import pytest

from tidegate.schemas.error import RejectedError
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import Kind

OUT_OF_RANGE = "is out of range; write a time from 1900-01-01 to 2200-01-01 UTC"

PUBLISHED = [kind for kind in Kind if kind is not Kind.DEAD_LETTER]


Headers = Sequence[tuple[str, bytes]]


def headers_of(**attributes: str) -> Headers:
    return [(f"ce_{name}", text.encode()) for name, text in attributes.items()]


def rejection(value: bytes | None, headers: Headers = (), kind: Kind = Kind.DATASET_UPDATED) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        decode(kind, headers, value)
    return caught.value


def structured(data: bytes) -> bytes:
    return b'{"specversion":"1.0","id":"7","source":"s","data_base64":"%s"}' % b64encode(data)
