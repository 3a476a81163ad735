"""Values of JSON, numbers and times at the edges, and values that are damaged in one place."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy


def mostly(usual: SearchStrategy[Any], rare: SearchStrategy[Any], one_in: int = 10) -> SearchStrategy[Any]:
    """One of `one_in` draws is rare: an input with many parts is refused for one that is wrong."""
    return st.integers(0, one_in - 1).flatmap(lambda n: rare if n == one_in - 1 else usual)


EDGES = st.sampled_from(
    [
        "2026-05-01T12:00:00Z",
        "2026-05-01T11:59:59.999999+02:00",
        "2026-05-01T12:00:01+00:00",
        "2024-02-29T23:59:59Z",
        "1900-01-01T00:00:00Z",
        "2200-01-01T00:00:00Z",
        "2199-12-31T23:59:59+00:01",
    ]
)
REFUSED = st.sampled_from(
    [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "1899-12-31T23:59:59+14:00",
        "1900-01-01T00:00:00+14:00",
        "2200-01-01T00:00:01-14:00",
        "2199-12-31T23:59:59-14:00",
        "2026-02-30T00:00:00Z",
        "2024-02-29T23:59:60Z",
        "2026-05-01",
        "yesterday",
        "",
    ]
)
TIMES = mostly(EDGES, REFUSED)
"""The accepted range, and times out of it."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | TIMES
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)
UNSTORABLE = st.sampled_from(["\0", "a\0b"])
RARE_TEXTS = st.sampled_from(["\x1b[31m", "\u202e", "\ufffe", "ü", "🙂", " ", "\n", "\\u0000", "'", '"', "%s", "\x7f", "{{"])

NUMBERS: SearchStrategy[Any] = mostly(
    st.sampled_from([0, 1, 2, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, 1.5, -0.0, 1e308, 5e-324]),
    st.sampled_from(
        [*map(msgspec.Raw, (b"1e400", b"-0.0", b"1" * 4300, b"1" * 4301, b"1E-400", b"1e5", b"0." + b"1" * 5000)), -1]
    ),
)
"""Numbers of JSON, some of them too large for what reads them."""

RAW: SearchStrategy[Any] = st.sampled_from(
    [
        *map(msgspec.Raw, (b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"a\\\\u0000"', b"[" * 64 + b"]" * 64)),
        *map(msgspec.Raw, (b"[" * 59 + b"]" * 59, b'{"a":' * 70 + b"1" + b"}" * 70, b"NaN", b"", b'{"a":1,"a":2}')),
    ]
)
"""JSON that no value of Python becomes, and what looks like JSON."""


@st.composite
def damaged(draw: DrawFn, values: SearchStrategy[Any]) -> Any:
    """A value, one of four with a part left out or replaced."""
    value = draw(values)
    if draw(st.integers(0, 3)) < 3:
        return value
    by = draw(SCALARS | NUMBERS | RAW | RARE_TEXTS | UNSTORABLE | VALUES)
    return replaced(value, draw(st.lists(st.integers(0, 7), min_size=1, max_size=5)), by, leave_out=draw(st.booleans()))


def replaced(value: Any, path: list[int], by: Any, *, leave_out: bool) -> Any:
    if not path or not value or not isinstance(value, dict | list):
        return by
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, inner = keys[path[0] % len(keys)], path[1:]
    whole: Any = dict(value) if isinstance(value, dict) else list(value)
    if leave_out and (not inner or not isinstance(value[key], dict | list)):
        del whole[key]
    else:
        whole[key] = replaced(value[key], inner, by, leave_out=leave_out)
    return whole
